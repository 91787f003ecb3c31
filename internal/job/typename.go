package job

import "strconv"

// MaxTypeName is how many characters the name of a job type may have, wherever one is named: in a submit, an API key, a
// plan or a setting.
const MaxTypeName = 64

// TypeNameRule completes a sentence that begins with "a job type".
var TypeNameRule = "has 1 to " + strconv.Itoa(MaxTypeName) +
	" capital letters, digits and _, and starts with a letter"

// MaxForeignTypeName is how many characters the name of a job type may have that another protocol's client names.
const MaxForeignTypeName = 100

// ForeignTypeNameRule completes a sentence that begins with "a job type".
var ForeignTypeNameRule = "has 1 to " + strconv.Itoa(MaxForeignTypeName) +
	" letters, digits and _ . : / -, and starts with a letter"

// IsForeignTypeName reports whether a text can be the name of a job type that comes through another protocol, such as
// Foo::Bar or app.tasks.add. Every name of a job type is one.
func IsForeignTypeName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '.' && c != ':' && c != '/' && c != '-') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= MaxForeignTypeName
}

// IsTypeName reports whether a text can be the name of a job type. It does not check that there is such a type.
func IsTypeName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (i == 0 || (c < '0' || c > '9') && c != '_') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= MaxTypeName
}
