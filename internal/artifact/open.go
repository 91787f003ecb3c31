package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// s3Params are the query parameters of an s3:// URL. Open refuses all others.
var s3Params = []string{"region", "endpoint", "use_path_style", "prefix", "profile", "ssetype", "kmskeyid"}

// Open opens a store by its URL:
//
//	file:///var/lib/tierq/artifacts   a folder; Open creates it (0700) if it is missing; its files are 0600
//	s3://bucket?region=eu-central-1   an existing bucket; s3Params lists the query's parameters
//
// The URL has no credentials of S3. They come from the places where the AWS tools look (AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, the shared files, a web identity, the role of the container or machine: see identity).
// Open does not call S3; Check does. The error for a wrong URL does not contain the URL.
func Open(_ context.Context, text string) (*Store, error) {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return nil, errors.New("open artifact store: neither file:///folder nor s3://bucket?region=name")
	}
	switch u.Scheme {
	case "file":
		return openFolder(u)
	case "s3":
		return openS3(u)
	}
	return nil, errors.New("open artifact store: the URL must begin with file:/// or s3://")
}

// FolderURL returns the URL of a folder, whose path may be relative.
func FolderURL(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("artifact folder: %w", err)
	}
	return folderURL(path, runtime.GOOS == "windows"), nil
}

// folderURL puts a slash before a Windows path, so that the drive does not become the URL's host: file:///C:/data.
func folderURL(path string, windows bool) string {
	if windows {
		path = strings.ReplaceAll(path, `\`, "/")
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// folderPath returns the folder of a URL's path. On Windows it removes the slash before a drive.
func folderPath(path string, windows bool) string {
	if !windows {
		return path
	}
	if drivePath.MatchString(path) {
		path = path[1:]
	}
	return strings.ReplaceAll(path, "/", `\`)
}

var drivePath = regexp.MustCompile(`^/[A-Za-z]:(/|$)`)

func openFolder(u *url.URL) (*Store, error) {
	if u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("open artifact store: a folder is written as file:///folder, without anything else")
	}
	dir := folderPath(u.Path, runtime.GOOS == "windows")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open artifact store: %w: %w", job.ErrUnavailable, err)
	}
	return &Store{bucket: directory{dir}, where: "folder " + dir, patience: patience}, nil
}

func openS3(u *url.URL) (*Store, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("open artifact store: a bucket is written as s3://bucket?region=name, folders in it as " +
			"prefix=folder/")
	}
	for name, values := range query {
		if !slices.Contains(s3Params, name) || len(values) != 1 {
			return nil, fmt.Errorf("open artifact store: s3:// takes each of %s once, and nothing else",
				strings.Join(s3Params, ", "))
		}
	}
	prefix, profile, encryption := query.Get("prefix"), query.Get("profile"), query.Get("ssetype")
	if strings.Contains("/"+prefix, "//") || strings.Contains(prefix, "../") || strings.Contains("/"+prefix, "/./") {
		return nil, errors.New("open artifact store: prefix begins with no / and has no //, ./ or ../ in it: " +
			"servers on the way would change it")
	}
	pathStyle, err := boolean(query.Get("use_path_style"))
	if err != nil {
		return nil, errors.New("open artifact store: use_path_style is true or false")
	}
	headers := http.Header{}
	switch {
	case encryption == "AES256", encryption == "aws:kms", encryption == "aws:kms:dsse":
		headers.Set("X-Amz-Server-Side-Encryption", encryption)
	case encryption != "":
		return nil, errors.New("open artifact store: ssetype is AES256, aws:kms or aws:kms:dsse")
	}
	if key := query.Get("kmskeyid"); key != "" {
		headers.Set("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", key)
	}
	end := cmp.Or(query.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	region := cmp.Or(query.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"),
		readProfile(cmp.Or(profile, os.Getenv("AWS_PROFILE"), "default"))["region"])
	if region == "" && end != "" {
		region = "us-east-1" // servers without regions accept this one
	}
	if region == "" || strings.ContainsAny(region, "/.:@ ") {
		return nil, errors.New("open artifact store: S3 needs a region: s3://bucket?region=name, or AWS_REGION")
	}
	base, err := bucketURL(end, region, u.Host, pathStyle)
	if err != nil {
		return nil, err
	}
	where := "S3 bucket " + u.Host
	if prefix != "" {
		where += ", below " + prefix
	}
	client := newClient()
	return &Store{where: where, patience: patience, bucket: &s3{
		base: base, region: region, prefix: prefix, headers: headers, client: client, now: time.Now,
		pause:    200 * time.Millisecond,
		identity: newIdentity(profile, region, client),
	}}, nil
}

func boolean(text string) (bool, error) {
	if text == "" {
		return false, nil
	}
	return strconv.ParseBool(text)
}
