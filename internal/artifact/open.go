package artifact

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob"

	"github.com/tierq/tierq/internal/job"
)

// The query parameters of an s3:// URL; every other one is refused.
var s3Params = []string{"region", "endpoint", "use_path_style", "prefix", "profile", "ssetype", "kmskeyid"}

// Open opens a store by its URL:
//
//	file:///var/lib/tierq/artifacts   a folder; it is created (0700) if it is not there, its files are 0600
//	s3://bucket?region=eu-central-1   a bucket that is there already; see s3Params for what the query may say
//
// Credentials of S3 are no part of the URL: they come from where the AWS tools look (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the
// shared credentials file, the role of the machine or container). Open does not call S3; Check does. A URL that is wrong is an error
// that does not repeat it.
func Open(ctx context.Context, text string) (*Store, error) {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return nil, errors.New("open artifact store: neither file:///folder nor s3://bucket?region=name")
	}
	switch u.Scheme {
	case "file":
		return openFolder(u)
	case "s3":
		return openS3(ctx, u)
	}
	return nil, errors.New("open artifact store: the URL must begin with file:/// or s3://")
}

// FolderURL is the URL of a folder, which need not be absolute.
func FolderURL(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("artifact folder: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String(), nil
}

func openFolder(u *url.URL) (*Store, error) {
	if u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("open artifact store: a folder is written as file:///folder, without anything else")
	}
	dir := filepath.FromSlash(u.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open artifact store: %w: %w", job.ErrUnavailable, err)
	}
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{
		DirFileMode: 0o700,
		NoTempDir:   true, // a rename works within one file system only
		Metadata:    fileblob.MetadataDontWrite,
	})
	if err != nil {
		return nil, fmt.Errorf("open artifact store: %w: %w", job.ErrUnavailable, err)
	}
	return &Store{bucket: bucket, where: "folder " + dir, patience: patience}, nil
}

func openS3(ctx context.Context, u *url.URL) (*Store, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("open artifact store: a bucket is written as s3://bucket?region=name, folders in it as prefix=folder/")
	}
	for name, values := range query {
		if !slices.Contains(s3Params, name) || len(values) != 1 {
			return nil, fmt.Errorf("open artifact store: s3:// takes each of %s once, and nothing else", strings.Join(s3Params, ", "))
		}
	}
	if end := query.Get("endpoint"); end != "" {
		if e, err := url.Parse(end); err != nil || e.Host == "" || e.User != nil || e.Scheme != "https" && e.Scheme != "http" {
			return nil, errors.New("open artifact store: endpoint is a URL like https://host:9000, without credentials")
		}
	}
	prefix := query.Get("prefix")
	query.Del("prefix")
	bucket, err := new(s3blob.URLOpener).OpenBucketURL(ctx, &url.URL{Scheme: "s3", Host: u.Host, RawQuery: query.Encode()})
	if err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	where := "S3 bucket " + u.Host
	if prefix != "" {
		bucket = blob.PrefixedBucket(bucket, prefix)
		where += ", below " + prefix
	}
	return &Store{bucket: bucket, where: where, patience: patience}, nil
}
