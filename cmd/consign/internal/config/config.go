// Package config reads the configuration of the daemon: a TOML file, and flags,
// which the environment can set as well. It reports every fault at once, with file
// and line, and no secret in any of them: those come from the environment and from
// files alone.
package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook"
)

// Config is what the command runs with.
type Config struct {
	DB     string // URL, see package database
	Listen string // address of health, metrics and console, or "off"

	Schema string // of PostgreSQL
	Prefix string // of SQLite

	Program      string
	Workers      int
	Grace        time.Duration
	HandlerGrace time.Duration
	Migrate      bool          // serve brings the tables up
	Retention    time.Duration // serve removes what has ended and is older; 0: nothing

	Channels []Channel
	Trace    Trace
	Console  Console
}

// Channel is a declared channel.
type Channel struct {
	consign.Channel
	Endpoint *webhook.Endpoint
	Signed   bool
	HasURL   bool
}

// Trace says where traces go.
type Trace struct {
	Endpoint string  // OTLP over HTTP, as in "http://127.0.0.1:4318"; empty: nowhere
	Sample   float64 // share of traces that begin here, 0 to 1
}

// Source is where the configuration comes from.
type Source struct {
	File     string   // TOML; empty: none
	DB       string   // flag, over the file; empty: not given
	Listen   string   // flag, over the file; empty: not given
	Webhooks []string // flags, beside the file
	Endpoint string   // flag for traces, over the file
	Migrate  *bool    // flag, over the file

	// FlagDB says that DB came from the command line, which everybody on the machine
	// can read, and not from the environment.
	FlagDB bool

	// Secrets says that this command sends, so that a missing secret is a fault.
	Secrets bool
}

// The defaults.
const (
	DefaultDB     = "sqlite:consign.db"
	DefaultListen = "127.0.0.1:8484"
)

// loader collects the faults of one load.
type loader struct {
	doc     *document
	secrets bool
	faults  Faults
}

// add adds a fault of a path, in the document or at a place of its own.
func (l *loader) add(place, path, rule string) {
	f := Fault{Place: place, Key: path, Rule: rule}
	if place == "" {
		f.Place, f.line = l.doc.place(path)
	}
	l.faults = append(l.faults, f)
}

// Load reads the configuration. The error is a Faults, with all of them.
func Load(s Source) (*Config, error) {
	l := &loader{doc: &document{values: map[string]any{}}, secrets: s.Secrets}
	if s.File != "" {
		text, err := os.ReadFile(s.File)
		if err != nil {
			return nil, Faults{{Place: s.File, Rule: "cannot be read: " + reason(err)}}
		}
		doc, faults := parse(s.File, text)
		if faults != nil {
			return nil, faults
		}
		l.doc = doc
	}
	c := l.config(s)
	if len(l.faults) > 0 {
		return nil, l.faults.sorted()
	}
	return c, nil
}

func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// config reads the top of the document, with the flags over it.
func (l *loader) config(s Source) *Config {
	c := &Config{DB: DefaultDB, Listen: DefaultListen, Migrate: true, Trace: Trace{Sample: 1}}
	t := l.table("", "", l.doc.values)
	t.text("db", &c.DB)
	if _, given := t.get("db"); given && HoldsPassword(c.DB) {
		t.fault("db", "holds a password: put the URL into the environment variable CONSIGN_DB, or the password into PGPASSFILE")
	}
	t.text("listen", &c.Listen)
	t.text("schema", &c.Schema)
	t.text("prefix", &c.Prefix)
	t.text("program", &c.Program)
	t.number("workers", &c.Workers)
	t.duration("grace", &c.Grace)
	t.duration("handler_grace", &c.HandlerGrace)
	t.flag("migrate", &c.Migrate)
	if t.duration("retention", &c.Retention); c.Retention < 0 {
		t.fault("retention", "is negative")
	}
	if values, ok := read[map[string]any](t, "trace", "table"); ok {
		l.trace(l.table("trace", "", values), &c.Trace)
	}
	values, _ := read[map[string]any](t, "console", "table")
	l.console(l.table("console", "", values), &c.Console)
	if values, ok := read[map[string]any](t, "channels", "table of channels"); ok {
		l.channels(values, c)
	}
	t.done()
	if s.DB != "" {
		if c.DB = s.DB; s.FlagDB && HoldsPassword(s.DB) {
			l.add("--db", "", "holds a password, which everybody on this machine can read: put the URL into the environment variable CONSIGN_DB, or the password into PGPASSFILE")
		}
	}
	if s.Listen != "" {
		c.Listen = s.Listen
	}
	if s.Endpoint != "" {
		c.Trace.Endpoint = s.Endpoint
	}
	if s.Migrate != nil {
		c.Migrate = *s.Migrate
	}
	l.webhooks(s.Webhooks, c)
	l.check(c)
	return c
}

func (l *loader) trace(t *table, into *Trace) {
	t.text("endpoint", &into.Endpoint)
	t.share("sample", &into.Sample)
	if into.Sample < 0 || into.Sample > 1 {
		t.fault("sample", "is not from 0 to 1")
	}
	t.done()
}

// channels reads [channels.NAME] for each name.
func (l *loader) channels(values map[string]any, c *Config) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := "channels." + name
		below, ok := values[name].(map[string]any)
		if !ok {
			l.add("", path, "is no table")
			continue
		}
		c.Channels = append(c.Channels, l.channel(l.table(path, "", below), name))
	}
}

// webhooks reads --webhook NAME=URL[,OPTION…].
func (l *loader) webhooks(flags []string, c *Config) {
	for _, flag := range flags {
		name, rest, ok := strings.Cut(flag, "=")
		if !ok || name == "" {
			l.add("--webhook", "", "is not NAME=URL, or NAME=* for the URL of each message")
			continue
		}
		place := "--webhook " + name
		if slices.ContainsFunc(c.Channels, func(other Channel) bool { return other.Name == name }) {
			l.add(place, "", "declares a channel that is declared already")
			continue
		}
		options := strings.Split(rest, ",")
		values := map[string]any{"url": options[0]}
		if options[0] == "*" {
			values = map[string]any{"any_url": true}
		}
		for _, option := range options[1:] {
			key, value, has := strings.Cut(option, "=")
			if !has {
				value = "true"
			}
			values[key] = guess(value)
		}
		c.Channels = append(c.Channels, l.channel(l.table("", place, values), name))
	}
}

// guess gives the value of an option the type that it would have in the file.
func guess(s string) any {
	if s == "true" || s == "false" {
		return s == "true"
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if strings.Contains(s, "+") {
		var list []any
		for one := range strings.SplitSeq(s, "+") {
			list = append(list, guess(one))
		}
		return list
	}
	return s
}
