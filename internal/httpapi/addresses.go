package httpapi

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// addresses lists the served paths and the methods that serve each of them. It tells an unknown path (404) from a
// known path with another method (405). Gin's own search cannot: it continues from where its last tree's search
// ended, and finds methods that the path does not have.
type addresses struct {
	paths   [][]string // in segments
	methods [][]string
}

func (a *addresses) add(method, path string) {
	segments := strings.Split(path, "/")
	for i, known := range a.paths {
		if slices.Equal(known, segments) {
			a.methods[i] = append(a.methods[i], method)
			return
		}
	}
	a.paths, a.methods = append(a.paths, segments), append(a.methods, []string{method})
}

// allowed returns the methods that serve a path, in the order in which they were added; nil if there is no such
// path.
func (a *addresses) allowed(path string) (methods []string) {
	segments := strings.Split(path, "/")
	for i, known := range a.paths {
		if !fits(known, segments) {
			continue
		}
		for _, m := range a.methods[i] {
			if !slices.Contains(methods, m) {
				methods = append(methods, m)
			}
		}
	}
	return methods
}

// fits reports whether a path matches an address: a segment :name matches any segment that is not empty, *name
// matches the rest of the path.
func fits(address, path []string) bool {
	for i, segment := range address {
		switch {
		case strings.HasPrefix(segment, "*"):
			return i < len(path)
		case i >= len(path), strings.HasPrefix(segment, ":") && path[i] == "", !strings.HasPrefix(segment, ":") &&
			segment != path[i]:
			return false
		}
	}
	return len(address) == len(path)
}

// refuse returns the error for a request that no route took: 404 for an unknown path, 405 with the header Allow for
// another method of a known path.
func (a *addresses) refuse(c *gin.Context) error {
	methods := a.allowed(c.Request.URL.EscapedPath())
	switch {
	case len(methods) == 0:
		return errNoRoute
	case slices.Contains(methods, c.Request.Method): // for example POST /jobs/submit: gin searches below /jobs only
		return &problem{kind: unknownTier}
	}
	c.Writer.Header().Set("Allow", strings.Join(methods, ", "))
	return errMethod
}
