package job

import "time"

// Seat is one of the leases that an API key may hold at once. It is free again when it is given up, or when Lasts is
// over.
type Seat struct {
	Name  string
	Lasts time.Duration // from now on
}
