// Package face holds the browser tests of the pages: a real server, a real Chromium, and a person's clicks and
// keys.
package face
