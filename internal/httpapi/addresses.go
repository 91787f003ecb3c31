package httpapi

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// addresses are the paths that are served, and by which methods. It tells an address that is not there from one that
// does not serve this method: gin's own look at its other trees goes on from where the last one ended, and finds
// methods that are not there.
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

// allowed are the methods that a path is served by, in the order they were added; none if there is no such address.
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

// fits says whether a path is one of an address: :name is any segment, *name all that is left.
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

// refuse answers what no route took.
func (a *addresses) refuse(c *gin.Context) error {
	methods := a.allowed(c.Request.URL.EscapedPath())
	switch {
	case len(methods) == 0:
		return errNoRoute
	case slices.Contains(methods, c.Request.Method): // a submit to a name that other routes own: gin looks for those only
		return &problem{kind: unknownTier}
	}
	c.Writer.Header().Set("Allow", strings.Join(methods, ", "))
	return errMethod
}
