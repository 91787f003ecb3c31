package job

import "strconv"

// Home returns the partition, of so many, that gets all submits under one Idempotency-Key in every process: the
// key's first 16 bits mod partitions.
func Home(key string, partitions int) int {
	// the bits are 0 for a key that is no hash, which is a valid partition too
	bits, _ := strconv.ParseUint(key[:min(len(key), 4)], 16, 16)
	return int(bits) % max(partitions, 1)
}
