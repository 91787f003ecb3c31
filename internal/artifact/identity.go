package artifact

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// identity finds the keys that sign requests, in the places and the order of the AWS tools: a profile that the URL
// names; the environment; a web identity; the shared files; the role of the container; the role of the machine.
// Five minutes before keys expire it asks for new ones.
type identity struct {
	profile string // from the URL; "" = AWS_PROFILE, or else default
	region  string // for the web identity
	client  *http.Client
	now     func() time.Time

	turn  chan struct{} // holds a value while a call uses the fields below
	known keys
	again time.Time // while the known keys are good, no new ones are requested before this
}

func newIdentity(profile, region string, client *http.Client) *identity {
	return &identity{profile: profile, region: region, client: client, now: time.Now, turn: make(chan struct{}, 1)}
}

const (
	early        = 5 * time.Minute  // new keys are requested this long before the end
	renewalTime  = 5 * time.Second  // limit for an answer while the known keys are good
	renewalPause = 30 * time.Second // pause after a failed renewal while the known keys are good
)

var errNoKeys = errors.New(
	"no credentials for S3: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor a shared file, nor a role",
)

// keys returns keys that are good for at least one more request, or an error. Concurrent calls wait for each
// other, each until its ctx ends.
func (i *identity) keys(ctx context.Context) (keys, error) {
	if err := i.lock(ctx); err != nil {
		return keys{}, err
	}
	defer i.unlock()
	good, now := i.stillGood(), i.now()
	if good && (i.known.expires.IsZero() || now.Before(i.known.expires.Add(-early)) || now.Before(i.again)) {
		return i.known, nil
	}
	if good {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, renewalTime)
		defer cancel()
	}
	found, err := i.find(ctx)
	if err != nil && i.stillGood() {
		i.again = i.now().Add(renewalPause)
		return i.known, nil // the service may be back before they expire
	}
	if err != nil {
		return keys{}, err
	}
	i.known = found
	return found, nil
}

func (i *identity) stillGood() bool {
	return i.known.id != "" && (i.known.expires.IsZero() || i.now().Before(i.known.expires))
}

// forget makes the next request ask for new keys, after the server said that these have expired. It does nothing
// if ctx ends while it waits for its turn.
func (i *identity) forget(ctx context.Context) {
	if i.lock(ctx) == nil {
		defer i.unlock()
		i.known = keys{}
	}
}

// lock waits for the caller's turn, or until ctx ends.
func (i *identity) lock(ctx context.Context) error {
	select {
	case i.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (i *identity) unlock() { <-i.turn }

func (i *identity) find(ctx context.Context) (keys, error) {
	if i.profile != "" {
		return i.ofProfile(i.profile)
	}
	k := keys{
		id: os.Getenv("AWS_ACCESS_KEY_ID"), secret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		token: os.Getenv("AWS_SESSION_TOKEN"),
	}
	if k.id != "" && k.secret != "" {
		return k, nil
	}
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" && os.Getenv("AWS_ROLE_ARN") != "" {
		return i.ofWebIdentity(ctx)
	}
	name := os.Getenv("AWS_PROFILE")
	if name == "" {
		name = "default"
	}
	if k, err := i.ofProfile(name); err == nil || os.Getenv("AWS_PROFILE") != "" {
		return k, err
	}
	if os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" ||
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" {
		return i.ofContainer(ctx)
	}
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return keys{}, errNoKeys
	}
	k, err := ofMachine(ctx)
	if err != nil {
		return keys{}, fmt.Errorf("%w: %w", errNoKeys, err)
	}
	return k, nil
}

// ofProfile reads keys from the shared files.
func (i *identity) ofProfile(name string) (keys, error) {
	p := readProfile(name)
	k := keys{id: p["aws_access_key_id"], secret: p["aws_secret_access_key"], token: p["aws_session_token"]}
	if k.id == "" || k.secret == "" {
		return keys{}, fmt.Errorf(
			"no credentials for S3: the shared files have no aws_access_key_id and aws_secret_access_key for profile %q "+
				"(profiles of roles, processes and single sign-on are not read)",
			name,
		)
	}
	return k, nil
}

// readProfile returns the settings of a profile in the shared files. The credentials file overrides the
// configuration.
func readProfile(name string) map[string]string {
	all := map[string]string{}
	section := "profile " + name
	if name == "default" {
		section = name
	}
	readSection(sharedFile("AWS_CONFIG_FILE", "config"), section, all)
	readSection(sharedFile("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name, all)
	return all
}

func sharedFile(variable, name string) string {
	if file := os.Getenv(variable); file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".aws", name)
}

// readSection adds a section of an INI file to all. A missing file adds nothing.
func readSection(file, section string, all map[string]string) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	within := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if head, ok := strings.CutPrefix(line, "["); ok {
			head, _, _ = strings.Cut(head, "]")
			within = strings.Join(strings.Fields(head), " ") == section
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if indented := lines.Text() != "" && strings.ContainsRune(" \t", rune(lines.Text()[0])); within && ok &&
			!indented &&
			!strings.ContainsRune("#;", rune(line[0])) {
			value, _, _ = strings.Cut(strings.TrimSpace(value), " #")
			all[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
}
