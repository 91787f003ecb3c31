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

// Problems is the error of Load. It lists everything that is wrong, at least one line.
type Problems struct{ List []string }

// Error returns the list, one problem per line.
func (p *Problems) Error() string { return strings.Join(p.List, "\n") }

// value is a setting's text and its source as a user would name it; "" = the environment.
type value struct{ text, from string }

// loader collects values, then problems. A name in bad has been reported: later checks skip it.
type loader struct {
	values   map[string]value
	problems []string
	bad      map[string]bool
	exposed  []string // NAME_FILE=path
}

// Load reads the settings. environ has the form of os.Environ. dotenv is the path of a .env file ("" = none; a
// file that does not exist counts as none). flags are the settings that the command line set, by name. Flags
// override the environment, which overrides the .env file, which overrides the defaults. An empty value means the
// default.
//
// A non-nil error is a *Problems with every problem found; the Config must then not be used. No problem shows a
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
	l.checkQueues(c)
	l.checkFaktory(c)
	l.checkOutgoing(c)
	l.checkRetention(&c)
	l.checkRest(c)
	if len(l.problems) > 0 {
		return Config{}, &Problems{List: l.problems}
	}
	return c, nil
}

// problem reports what is wrong with a setting. It shows the value, unless that is a secret or may contain one.
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
		// The parser's error quotes the rest of the file, which has passwords.
		text, _, _ := strings.Cut(err.Error(), " near ")
		return nil, errors.New("cannot be parsed: " + text)
	}
	return pairs, nil
}

// withoutPath returns only the cause of an error, because the line already begins with the path.
func withoutPath(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// refuseNames reports every TIERQ_ name that is no setting, even if its value is empty.
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
		l.values[name] = value{from: v.from} // the value of an unknown name may be anything, even a secret
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

// exposed says whether every user of this machine may read a file. It is false below /run/secrets, because there a
// container's runtime sets the modes and a container has no other users, and on Windows, which has no such modes.
func exposed(path string) bool {
	if runtime.GOOS == "windows" || strings.HasPrefix(filepath.Clean(path), "/run/secrets/") {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// parse fills c. It reports values that cannot be parsed and leaves them zero.
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
