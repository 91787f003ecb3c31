package artifact

import (
	"net/url"
	"strings"
	"testing"
)

func TestOpenRefuses(t *testing.T) {
	s3Server(t)
	for text, want := range map[string]string{
		"":                                    "must begin with",
		"./data":                              "must begin with",
		"mem://":                              "must begin with",
		"file://":                             "file:///folder",
		"file:///":                            "file:///folder",
		"file://host/folder":                  "file:///folder",
		"file:///folder?metadata=x":           "file:///folder",
		"s3://?region=x":                      "s3://bucket",
		"s3://bucket/folder?region=x":         "prefix=",
		"s3://bucket?regin=x":                 "takes each of",
		"s3://bucket?region=x&anonymous=true": "takes each of",
		"s3://bucket?region=x&region=y":       "takes each of",
		"s3://bucket?endpoint=ftp://host":     "endpoint",
		"s3://bucket?endpoint=http://me:secret@host":    "endpoint",
		"s3://key:secret@bucket?region=x":               "neither file",
		"s3://bucket?region=x&ssetype=secret-of-nobody": "ssetype",
		"s3://key:secret@bucket%zz":                     "neither file",
		"s3://bucket":                                   "needs a region",
		"s3://bucket?region=x/y":                        "needs a region",
		"s3://bucket?region=x&use_path_style=perhaps":   "use_path_style",
		"s3://bucket?region=x&prefix=a//b":              "prefix",
		"s3://bucket?region=x&prefix=../b/":             "prefix",
		"s3://bucket?region=x&prefix=/b/":               "prefix",
	} {
		s, err := Open(t.Context(), text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "me:secret") ||
			strings.Contains(err.Error(), "key:secret") {
			t.Errorf("%q: %v, %v, want %q", text, s, err, want)
		}
	}
}

// A folder of either system becomes a URL that url.Parse accepts, and that gives the same folder again.
func TestFolderURLs(t *testing.T) {
	for _, c := range []struct {
		dir     string
		windows bool
		want    string
	}{
		{"/var/lib/tierq", false, "file:///var/lib/tierq"},
		{"/a b/%41?#", false, "file:///a%20b/%2541%3F%23"},
		{"/C:/data", false, "file:///C:/data"},
		{`/a\b`, false, "file:///a%5Cb"},
		{`C:\data\artifacts`, true, "file:///C:/data/artifacts"},
		{`d:\a b`, true, "file:///d:/a%20b"},
		{`\\server\share\data`, true, "file:////server/share/data"},
	} {
		text := folderURL(c.dir, c.windows)
		u, err := url.Parse(text)
		if text != c.want || err != nil || u.Host != "" || folderPath(u.Path, c.windows) != c.dir {
			t.Errorf("%s: %s, %v, %v", c.dir, text, u, err)
		}
	}
	if got := folderPath("/data/x", true); got != `\data\x` {
		t.Errorf("without a drive: %s", got)
	}
}

func TestDescribe(t *testing.T) {
	s, dir := folder(t)
	if got := s.Describe(); got != "folder "+dir {
		t.Error(got)
	}
	_, text := s3Server(t)
	if got := open(t, text).Describe(); got != "S3 bucket files, below made/" {
		t.Error(got)
	}
}

// A56: cleanName removes everything that must not get into a header or a file system.
func TestCleanName(t *testing.T) {
	t.Attr("proves", "A56")
	for name, want := range map[string]string{
		"report.pdf":                      "report.pdf",
		"Bericht für März.pdf":            "Bericht für März.pdf",
		"../../etc/passwd":                "passwd",
		`C:\temp\x.pdf`:                   "x.pdf",
		"a\r\nSet-Cookie: x=1":            "aSet-Cookie: x=1",
		"a\x00b\x1b[31m\u202efdp.exe":     "ab[31mfdp.exe",
		"..":                              "artifact",
		"":                                "artifact",
		"dir/":                            "artifact",
		"\xff\xfe.pdf":                    "pdf",
		strings.Repeat("x", 200):          strings.Repeat("x", 100),
		strings.Repeat("x", 200) + ".csv": strings.Repeat("x", 96) + ".csv",
		strings.Repeat("é", 60) + ".csv":  strings.Repeat("é", 48) + ".csv",
	} {
		if got := cleanName(name); got != want || len(got) > 100 {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for text, want := range map[string]string{
		"text/csv; charset=utf-8":            "text/csv; charset=utf-8",
		"Application/PDF":                    "application/pdf",
		"":                                   "application/octet-stream",
		"nonsense":                           "application/octet-stream",
		"text/html\r\nX: y":                  "application/octet-stream",
		"a/b; x=" + strings.Repeat("y", 200): "application/octet-stream",
	} {
		if got := cleanType(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A name full of characters that JSON encodes in six bytes still fits into the first line.
func TestHeadFits(t *testing.T) {
	line, err := encodeHead(head{Name: cleanName(strings.Repeat("<", 200)), ContentType: strings.Repeat("x", maxType),
		Size: MaxBytes})
	if err != nil || len(line) > maxHead {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	if _, n, err := readHead(strings.NewReader(string(line) + "text")); err != nil || n != int64(len(line)) {
		t.Errorf("%d of %d bytes, %v", n, len(line), err)
	}
}

// Settings that the URL lacks come from the environment variables of AWS' tools.
func TestRegionAndEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		url     string
		environ map[string]string
		want    string
	}{
		"of the URL": {"s3://files?region=eu-west-1", map[string]string{"AWS_REGION": "us-east-2"},
			"eu-west-1 https://files.s3.eu-west-1.amazonaws.com"},
		"of the environment": {"s3://files", map[string]string{"AWS_REGION": "us-east-2"},
			"us-east-2 https://files.s3.us-east-2.amazonaws.com"},
		"of the older name": {"s3://files", map[string]string{"AWS_DEFAULT_REGION": "us-east-2"},
			"us-east-2 https://files.s3.us-east-2.amazonaws.com"},
		"of the profile": {"s3://files?profile=work",
			map[string]string{"AWS_CONFIG_FILE": file(t, "[profile work]\nregion=sa-east-1\n")},
			"sa-east-1 https://files.s3.sa-east-1.amazonaws.com"},
		"of an endpoint": {"s3://files?endpoint=https://minio", nil, "us-east-1 https://files.minio"},
		"AWS_ENDPOINT_URL_S3": {"s3://files?region=x", map[string]string{"AWS_ENDPOINT_URL_S3": "https://minio"},
			"x https://files.minio"},
	} {
		t.Run(name, func(t *testing.T) {
			credentials(t, keys{})
			for variable, value := range c.environ {
				t.Setenv(variable, value)
			}
			b := open(t, c.url).bucket.(*s3)
			if got := b.region + " " + b.base.String(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
