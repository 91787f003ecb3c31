package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting is one row of the table of settings.
type Setting struct {
	Name    string // the environment variable
	Flag    string // the flag of serve, without dashes
	Default string // "" = unset
	Doc     string // one line of documentation
	Min     string // with Max and Why: the bounds; "" = none
	Max     string
	Why     string // the reason of the bounds
	Secret  bool   // never shown; may be read from the file in Name_FILE

	field string
	bytes bool
	index int
}

var table = readTable()

// elsewhere are TIERQ_ names that other programs read: Load ignores them.
var elsewhere = map[string]bool{"TIERQ_URL": true, "TIERQ_TOKEN": true}

func readTable() []Setting {
	t := reflect.TypeFor[Config]()
	var all []Setting
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("env")
		if name == "" {
			continue
		}
		all = append(all, Setting{
			Name:    name,
			Flag:    strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "TIERQ_"), "_", "-")),
			Default: f.Tag.Get("envDefault"),
			Doc:     texts[name].doc,
			Min:     f.Tag.Get("min"),
			Max:     f.Tag.Get("max"),
			Why:     texts[name].why,
			Secret:  f.Tag.Get("secret") != "",
			field:   f.Name,
			bytes:   f.Tag.Get("unit") == "bytes",
			index:   i,
		})
	}
	return all
}

// Settings returns the table of settings of this version, in the order of the docs. The caller may change the
// slice.
func Settings() []Setting { return append([]Setting(nil), table...) }

// Default returns a setting's default, "" for none or an unknown name.
func Default(name string) string {
	for _, s := range table {
		if s.Name == name {
			return s.Default
		}
	}
	return ""
}

// Usage returns the setting's line in `tierq serve --help` and in the docs.
func (s Setting) Usage() string {
	if s.Max == "" {
		return s.Doc
	}
	return fmt.Sprintf("%s (%s to %s)", s.Doc, s.Min, s.Max)
}

const exampleHead = `# Settings of tierq. Copy this file to .env and remove the "# " in front of what you change.
# Flags of "tierq serve" override the environment, which overrides .env, which overrides the defaults shown here.
# An empty value means the default. Put a password with a $ in 'single quotes'.
`

const exampleTail = `
# --- Read by docker-compose.yml only ---

# The database of the mysql service.
MYSQL_DATABASE=traffic_control_service_db
# The passwords of its root user, of the user that the server works with, and of the one that may change tables; and
# that of Redis. No defaults: compose refuses to start without one. Letters and digits only: they become parts of URLs.
MYSQL_ROOT_PASSWORD=
MYSQL_TIERQ_PASSWORD=
MYSQL_SCHEMA_PASSWORD=
REDIS_PASSWORD=
`

// Example returns the text of .env.example: every setting with its default, all of them commented out.
func Example() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, s := range table {
		fmt.Fprintf(&b, "\n%s# %s=%s\n", comment(s.Usage()), s.Name, s.Default)
		if s.Secret {
			fmt.Fprintf(&b, "# %s_FILE=\n", s.Name)
		}
	}
	b.WriteString(exampleTail)
	return b.String()
}

// comment returns a text as lines of a comment that end at 120 columns.
func comment(text string) string {
	var b strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 120 {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// Markdown returns the table of settings for the docs.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| setting | flag | default | |\n|---|---|---|---|\n")
	for _, s := range table {
		name, def := "`"+s.Name+"`", "unset"
		if s.Secret {
			name += " or `" + s.Name + "_FILE`"
		}
		if s.Default != "" {
			def = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| %s | `--%s` | %s | %s |\n", name, s.Flag, def, s.Usage())
	}
	return b.String()
}
