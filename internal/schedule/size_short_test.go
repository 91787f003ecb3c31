//go:build !long

package schedule

// wholeYears says whether the brute force goes through all ten years, or only through the days around each change of a
// zone's clock.
const wholeYears = false
