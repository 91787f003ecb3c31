package httpapi

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// params maps the names of an address's parameters to the functions that store their values. Their errors are
// reasons.
type params[T any] map[string]func(into *T, value string) error

// read reads a query strictly: only known names, each once. Unknown names are refused instead of ignored, because a
// later version may give them a meaning.
func (p params[T]) read(query string, into *T) error {
	if query == "" {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return &problem{kind: invalidRequest, detail: "the query cannot be read"}
	}
	var wrong []fieldError
	for name, all := range values {
		set, known := p[name]
		var err error
		switch {
		case !known:
			err = reason("unknown parameter")
		case len(all) > 1:
			err = reason("is there twice")
		default:
			err = set(into, all[0])
		}
		if err != nil {
			wrong = append(wrong, fieldError{shorten(name), err.Error()})
		}
	}
	slices.SortFunc(wrong, func(a, b fieldError) int { return cmp.Compare(a.Field, b.Field) })
	return refuseFields(wrong[:min(len(wrong), maxErrors)])
}

var noParams = params[struct{}]{}

// noQuery refuses a query on an address that takes no parameters.
func noQuery(c *gin.Context) error {
	if c.Request.URL.RawQuery == "" {
		return nil
	}
	return noParams.read(c.Request.URL.RawQuery, &struct{}{})
}

// pathID returns the job id in the path.
func pathID(c *gin.Context) (job.ID, error) {
	id, err := job.ParseID(c.Param("id"))
	if err != nil {
		return "", invalid("id", "is not a job id")
	}
	return id, nil
}

// bareID is pathID for an address that takes no parameters.
func bareID(c *gin.Context) (job.ID, error) {
	if err := noQuery(c); err != nil {
		return "", err
	}
	return pathID(c)
}

// page is the part of a list that is asked for: the cursor to start from, and the number of items.
type page struct {
	cursor string
	limit  int
}

const (
	pageLimit = 20
	pageMost  = 100
)

func whole(value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, reason("must be a whole number, " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
	}
	return n, nil
}

func (p *page) setLimit(value string) (err error) {
	p.limit, err = whole(value, 1, pageMost)
	return err
}

func (p *page) setCursor(value string) error {
	if len(value) > 512 || !visible(value) {
		return reason("is not a cursor of this list")
	}
	p.cursor = value
	return nil
}
