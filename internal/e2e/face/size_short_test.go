//go:build !long

package face

// The sizes of `make test`. Seven tabs are more than the six connections that HTTP/1.1 allows per server. Three
// browsers are more than two that could share something by chance.
const (
	manyTabs     = 7
	manyBrowsers = 3
	everything   = false
)
