package httpapi

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
)

// livez is GET /livez: the process answers. It touches nothing.
func (a *api) livez(c *gin.Context) error {
	c.Writer.Header()["Content-Type"] = jsonType
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.WriteString(`{"status":"UP"}`)
	return nil
}

type readyBody struct {
	Status    string  `json:"status"`
	Timestamp string  `json:"timestamp"`
	Checks    []Check `json:"checks,omitempty"`
}

// readyz is GET /readyz, with ?verbose the parts too.
func (a *api) readyz(c *gin.Context) error {
	report := a.Ready.Ready(c.Request.Context())
	body := readyBody{Status: report.Status, Timestamp: stamp(a.Now())}
	if _, verbose := c.GetQuery("verbose"); verbose {
		body.Checks = report.Checks
	}
	text, err := json.Marshal(&body, lenient)
	if err != nil {
		return fmt.Errorf("encode readiness: %w", err)
	}
	c.Writer.Header()["Content-Type"] = jsonType
	if report.Ready {
		c.Writer.WriteHeader(http.StatusOK)
	} else {
		c.Writer.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = c.Writer.Write(text)
	return nil
}
