package release

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// component is a part of a binary, as CycloneDX describes it.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Parts returns the list of modules that Go recorded in a binary: a CycloneDX 1.5 document in JSON. The list has
// neither a time nor a random number, so that the same binary has the same list.
func Parts(binary, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("parts of %s: %w", binary, err)
	}
	main := component{Type: "application", Name: info.Main.Path, Version: version, PURL: purl(info.Main.Path, version)}
	main.Ref = main.PURL
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "GO") || strings.HasPrefix(s.Key, "vcs.") || s.Key == "CGO_ENABLED" || s.Key == "-tags" {
			main.Properties = append(main.Properties, property{"tierq:build:" + s.Key, s.Value})
		}
	}
	std := component{Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	std.PURL = purl(std.Name, std.Version)
	std.Ref = std.PURL
	parts := []component{std}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m.Sum = m.Replace.Sum
		}
		v := m.Version
		if v == "" || v == "(devel)" { // a module of this checkout
			v = version
		}
		p := component{Type: "library", Name: m.Path, Version: v, PURL: purl(m.Path, v)}
		p.Ref = p.PURL
		if m.Sum != "" {
			p.Properties = []property{{"tierq:go.sum", m.Sum}}
		}
		parts = append(parts, p)
	}
	type dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
	on := dependency{Ref: main.Ref}
	for _, p := range parts {
		on.On = append(on.On, p.Ref)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err = e.Encode(struct {
		Format      string `json:"bomFormat"`
		SpecVersion string `json:"specVersion"`
		Version     int    `json:"version"`
		Metadata    struct {
			Component component `json:"component"`
		} `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}{Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Metadata: struct {
		Component component `json:"component"`
	}{main}, Components: parts, Dependencies: []dependency{on}})
	return text.Bytes(), err
}

// purl returns the package URL of a module.
func purl(module, version string) string {
	return "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
}
