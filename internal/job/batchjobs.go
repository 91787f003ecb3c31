package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// MaxBatchJobs is how many jobs the call that makes a batch may bring.
const MaxBatchJobs = 1000

// MaxOpenBatches is how many batches of an owner may be open at a time: not sealed, or with members that have not
// ended.
const MaxOpenBatches = 10_000

// BatchJobID returns the id of the nth of the jobs that came with the call that made a batch, from 0: a UUIDv7 with the
// time of the batch's id. The ids of one batch are in the order of n.
func BatchJobID(batch ID, n, partition int) ID {
	var u [16]byte
	_, _ = hex.Decode(u[:], []byte(strings.ReplaceAll(string(batch), "-", ""))) // cannot fail: the id is a UUID
	binary.BigEndian.PutUint16(u[6:8], uint16(n))                               // below 4096: a UUIDv7 leaves 12 bits
	sum := sha256.Sum256([]byte("batch job " + string(batch) + " " + strconv.Itoa(n)))
	copy(u[8:15], sum[:])
	u[15] = byte(partition)
	return UUIDv7(u)
}

// CameWith returns those of some ids that BatchJobID gave to the jobs of a batch, whatever their partition, and keeps
// their order.
func CameWith(batch ID, ids []ID) (of []ID) {
	const digits = 34 // all but those of the partition
	for _, id := range ids {
		if len(id) != len(batch) {
			continue
		}
		n, err := strconv.ParseUint(string(id[15:18]), 16, 16)
		if err == nil && n < MaxBatchJobs && BatchJobID(batch, int(n), 0)[:digits] == id[:digits] {
			of = append(of, id)
		}
	}
	return of
}
