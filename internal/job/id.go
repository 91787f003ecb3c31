package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// ID names a job: a UUIDv7 in its canonical lower-case text form. Its last byte is the job's partition.
type ID string

// ParseID reads an id as users send it, in either case. The error is ErrBadID for any text that is not a UUID of
// 36 characters. ParseID does not check whether the job exists.
func ParseID(s string) (ID, error) {
	if len(s) != 36 {
		return "", ErrBadID
	}
	id := make([]byte, 36)
	for i := range 36 {
		c := s[i]
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return "", ErrBadID
			}
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
		case 'A' <= c && c <= 'F':
			c += 'a' - 'A'
		default:
			return "", ErrBadID
		}
		id[i] = c
	}
	return ID(id), nil
}

// Partition returns the partition in the id's last byte, 0 to 255, or -1 for a text that is no id.
func (id ID) Partition() int {
	if len(id) != 36 {
		return -1
	}
	var b [1]byte
	if _, err := hex.Decode(b[:], []byte(id[34:])); err != nil {
		return -1
	}
	return int(b[0])
}

// UUIDv7 returns the id with these bytes, except for the six bits that make it a UUIDv7.
func UUIDv7(u [16]byte) ID {
	u[6] = u[6]&0x0f | 0x70 // version 7
	u[8] = u[8]&0x3f | 0x80 // the variant of RFC 9562
	text := hex.EncodeToString(u[:])
	return ID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// CallbackID returns the id of the job that reports an outcome: a UUIDv7 with the time and the partition of the
// reported job's id. Its other 66 bits are a hash of id and generation, so that it cannot collide with a random id
// in practice.
func CallbackID(id ID, generation int) ID {
	var u [16]byte
	_, _ = hex.Decode(u[:], []byte(strings.ReplaceAll(string(id), "-", ""))) // a job's id is a UUID
	sum := sha256.Sum256([]byte("callback " + string(id) + " " + strconv.Itoa(generation)))
	copy(u[6:15], sum[:])
	return UUIDv7(u)
}
