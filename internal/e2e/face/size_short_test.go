//go:build !long

package face

// What `make test` is content with. Seven tabs are more than the six connections that HTTP/1.1 has per server; three
// browsers are more than two that could share something by chance.
const (
	manyTabs     = 7
	manyBrowsers = 3
	everything   = false
)
