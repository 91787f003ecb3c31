//go:build long

package face

// What `make long` looks at: so many tabs and browsers as take a machine, and every page in every width and theme, as
// everybody who may see it.
const (
	manyTabs     = 20
	manyBrowsers = 20
	everything   = true
)
