package job

import "strconv"

// HomeDigits is how many hexadecimal digits of a key choose its partition.
const HomeDigits = 4

// Home returns the partition, of so many, that gets all submits under one Idempotency-Key, or one unique key, in every
// process: the key's first 16 bits mod partitions.
func Home(key string, partitions int) int {
	// the bits are 0 for a key that is no hash, which is a valid partition too
	bits, _ := strconv.ParseUint(key[:min(len(key), HomeDigits)], 16, 16)
	return int(bits) % max(partitions, 1)
}
