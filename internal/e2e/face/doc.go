// Package face holds the browser tests of the pages as they are served: the real server, a real Chromium, and what a
// person does with them.
package face
