package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// message is a page that says one thing.
type message struct {
	What string
	Do   string
	Link string // path below base; empty: none
	Name string
}

// shell is what every page is made from.
type shell struct {
	Base    string
	Path    string // below base
	Title   string
	Console string // the title of the whole
	In      bool
	Who     Identity
	Token   string
	May     map[string]bool
	CanOut  bool // there is a session to end
	Notice  *notice
	Review  string // how many wait for a person; empty: not known
	Sign    string // how many approvals are open
	Data    any
	Every   int64  // milliseconds between two looks of the script
	CSS, JS string // names of the assets
}

// pages parses the templates: each page with the shell around it.
func (c *Console) parse() (map[string]*template.Template, error) {
	around, err := template.New("shell.html").Funcs(c.functions()).ParseFS(templateFiles, "templates/shell.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page == "shell" || page == "parts" {
			continue
		}
		one, err := around.Clone()
		if err != nil {
			return nil, err
		}
		if out[page], err = one.ParseFS(templateFiles, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// render writes a page. It is made as a whole before the first byte is sent, so that
// an error is not half a page.
func (c *Console) render(w http.ResponseWriter, v *visit, r reply) {
	s := shell{
		Base: v.base, Path: v.path, Title: r.title, Console: c.o.Title, In: v.in, Who: v.who, Notice: r.notice, Data: r.data,
		CSS: assetName("console.css"), JS: assetName("console.js"), May: map[string]bool{}, CanOut: v.secret != "",
		Every: max(c.o.Refresh, time.Second).Milliseconds(),
	}
	if v.in {
		s.Token = c.token(v.holder)
		for p := range usual {
			s.May[string(p)] = v.may(p)
		}
	}
	if v.in && v.may(Look) {
		if seen := c.shared.peek(); seen != nil {
			s.Review, s.Sign = counted(seen.Review, seen.ReviewCapped), counted(seen.Approvals, seen.MoreToSign)
		}
	}
	var b bytes.Buffer
	if err := c.pages[r.page].Execute(&b, s); err != nil {
		c.o.Logger.Error("console: a page cannot be made", "page", r.page, "err", err)
		http.Error(w, "The page cannot be made. The log of the server says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.status == 0 {
		r.status = http.StatusOK
	}
	w.WriteHeader(r.status)
	w.Write(b.Bytes())
}

// assets by the name under which they are served: it holds a part of their digest, so
// that browsers may keep them for ever.
var assets = readAssets()

type assetFile struct {
	kind string
	text []byte
}

func readAssets() map[string]assetFile {
	out := map[string]assetFile{}
	for name, kind := range map[string]string{"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8"} {
		text, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // it is compiled in
		}
		sum := sha256.Sum256(text)
		out[hex.EncodeToString(sum[:6])+"-"+name] = assetFile{kind, text}
	}
	return out
}

func assetName(name string) string {
	for served := range assets {
		if strings.HasSuffix(served, "-"+name) {
			return served
		}
	}
	return ""
}

func asset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Write(a.text)
}
