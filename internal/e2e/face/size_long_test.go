//go:build long

package face

// The sizes of `make long`: so many tabs and browsers that they need the whole machine, and every page in every
// width and theme, as each kind of user who may see it.
const (
	manyTabs     = 20
	manyBrowsers = 20
	everything   = true
)
