package job

import "strconv"

// Home is the partition, of so many, in which all submits under one Idempotency-Key meet, whichever process takes them:
// the key's first 16 bits mod partitions.
func Home(key string, partitions int) int {
	// 0 for a key that is no hash, which is a place like any other
	bits, _ := strconv.ParseUint(key[:min(len(key), 4)], 16, 16)
	return int(bits) % max(partitions, 1)
}
