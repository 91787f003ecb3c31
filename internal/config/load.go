package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/joho/godotenv"
)

// Problems is the error of Load: everything that is wrong, at least one line.
type Problems struct{ List []string }

// Error is the list, one problem per line.
func (p *Problems) Error() string { return strings.Join(p.List, "\n") }

// value is a setting's text and where it came from, as a user would call it; "" = the environment.
type value struct{ text, from string }

// loader gathers values, then problems. A name in bad has been reported: later checks leave it alone.
type loader struct {
	values   map[string]value
	problems []string
	bad      map[string]bool
	exposed  []string // NAME_FILE=path
}

// Load reads the settings. environ is in the form of os.Environ; dotenv is the path of a .env file ("" = none; a file
// that does not exist is none); flags are what the command line set, by setting name. Flags override the environment,
// which overrides the .env file, which overrides the defaults. An empty value means the default.
//
// A non-nil error is a *Problems with every problem found; the Config is then not to be used. No problem shows a
// secret.
func Load(environ []string, dotenv string, flags map[string]string) (Config, error) {
	l := &loader{values: map[string]value{}, bad: map[string]bool{}}
	l.gather(environ, dotenv, flags)
	l.refuseNames()
	l.readSecretFiles()

	var c Config
	l.parse(&c)
	c.Exposed = strings.Join(l.exposed, ", ")
	l.checkBounds(c)
	l.checkStores(c)
	l.checkAddr(c)
	l.checkDoors(c)
	l.checkOutgoing(c)
	l.checkRetention(&c)
	l.checkRest(c)
	if len(l.problems) > 0 {
		return Config{}, &Problems{List: l.problems}
	}
	return c, nil
}

// problem reports what is wrong with a setting. The value is shown unless it is a secret, or may have one in it.
func (l *loader) problem(name, text string) {
	l.bad[name] = true
	shown := name
	v := l.values[name]
	if v.text != "" && !isSecret(strings.TrimSuffix(name, "_FILE")) && !mayHide[name] {
		shown += fmt.Sprintf("=%q", v.text)
	}
	if v.from != "" {
		shown += " (" + v.from + ")"
	}
	l.problems = append(l.problems, shown+": "+text)
}

func isSecret(name string) bool {
	for _, s := range table {
		if s.Name == name {
			return s.Secret
		}
	}
	return false
}

func (l *loader) gather(environ []string, dotenv string, flags map[string]string) {
	if dotenv != "" {
		pairs, err := readDotenv(dotenv)
		if err != nil {
			l.problems = append(l.problems, dotenv+": "+err.Error())
		}
		for name, text := range pairs {
			l.values[name] = value{text, dotenv}
		}
	}
	for _, pair := range environ {
		if name, text, ok := strings.Cut(pair, "="); ok {
			l.values[name] = value{text: text}
		}
	}
	for _, s := range table {
		if text, ok := flags[s.Name]; ok {
			l.values[s.Name] = value{text, "flag --" + s.Flag}
		}
		if text, ok := flags[s.Name+"_FILE"]; ok && s.Secret {
			l.values[s.Name+"_FILE"] = value{text, "flag --" + s.Flag + "-file"}
		}
	}
}

func readDotenv(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.New("cannot be read: " + withoutPath(err))
	}
	defer f.Close()
	pairs, err := godotenv.Parse(f)
	if err != nil {
		// The parser quotes the rest of the file, and the rest of the file has passwords.
		text, _, _ := strings.Cut(err.Error(), " near ")
		return nil, errors.New("cannot be parsed: " + text)
	}
	return pairs, nil
}

// withoutPath is the error's cause only; the path stands in front of the line already.
func withoutPath(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// refuseNames reports every TIERQ_ name that means nothing here. Empty values are no exception: a misspelt name is
// misspelt.
func (l *loader) refuseNames() {
	known := knownNames()
	var names []string
	for name := range l.values {
		if strings.HasPrefix(name, "TIERQ_") && !known[name] && !elsewhere[name] {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		v := l.values[name]
		l.values[name] = value{from: v.from} // an unknown name may hold anything, also a secret
		if near := nearest(name, known); near != "" {
			l.problem(name, "unknown setting; the nearest known one is "+near)
		} else {
			l.problem(name, "unknown setting; tierq serve --help lists them")
		}
	}
}

func knownNames() map[string]bool {
	known := map[string]bool{}
	for _, s := range table {
		known[s.Name] = true
		if s.Secret {
			known[s.Name+"_FILE"] = true
		}
	}
	return known
}

func (l *loader) readSecretFiles() {
	for _, s := range table {
		file := s.Name + "_FILE"
		path := l.values[file].text
		if !s.Secret || path == "" {
			continue
		}
		if l.values[s.Name].text != "" {
			l.problem(s.Name, file+" is set too; keep one of them")
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			l.problem(file, fmt.Sprintf("%s cannot be read: %s", path, withoutPath(err)))
			l.bad[s.Name] = true
			continue
		}
		trimmed := strings.TrimSpace(string(text))
		if trimmed == "" {
			l.problem(file, path+" is empty")
			l.bad[s.Name] = true
		}
		l.values[s.Name] = value{trimmed, file}
		if exposed(path) {
			l.exposed = append(l.exposed, file+"="+path)
		}
	}
}

// exposed says whether every user of this machine may read a file. It is false below /run/secrets, where a container's
// runtime chooses the modes and a container has no other users, and on Windows, which has no such modes.
func exposed(path string) bool {
	if runtime.GOOS == "windows" || strings.HasPrefix(filepath.Clean(path), "/run/secrets/") {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// parse fills c. What cannot be parsed is reported and left at zero.
func (l *loader) parse(c *Config) {
	texts := map[string]string{}
	names := map[string]string{}
	for _, s := range table {
		names[s.field] = s.Name
		text := l.values[s.Name].text
		if s.bytes {
			n, err := parseSize(cmp.Or(text, s.Default))
			if err != nil {
				l.problem(s.Name, err.Error())
			}
			text = strconv.FormatInt(n, 10)
		}
		texts[s.Name] = text
	}
	err := env.ParseWithOptions(c, env.Options{Environment: texts, FuncMap: parsers})
	if err == nil {
		return
	}
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		l.problems = append(l.problems, err.Error())
		return
	}
	for _, err := range all.Errors {
		if e, ok := errors.AsType[env.ParseError](err); ok {
			l.problem(names[e.Name], e.Err.Error())
		} else {
			l.problems = append(l.problems, err.Error())
		}
	}
}
