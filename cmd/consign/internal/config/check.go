package config

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver/memory"
)

// check has the library itself check what it will be given: on a store in memory,
// which is made of nothing.
func (l *loader) check(c *Config) {
	o := c.Options()
	_, err := consign.New(memory.New(), o)
	var e *consign.Error
	if errors.As(err, &e) {
		for _, f := range e.Faults {
			l.translate(c, f)
		}
	}
	if c.Listen != "off" {
		if host, port, err := net.SplitHostPort(c.Listen); err != nil || host == "" || port == "" {
			l.add("", "listen", `is no address with a port, like "127.0.0.1:8484"; "off" opens none`)
		}
	}
	if c.Trace.Endpoint != "" {
		u, err := url.Parse(c.Trace.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			l.add("", "trace.endpoint", "is no http or https URL without user information")
		}
	}
}

// field is how the library calls a channel's field.
var field = regexp.MustCompile(`^channels\[(\d+)\]\.(.*)$`)

// translate says where a fault that the library found was configured.
func (l *loader) translate(c *Config, f consign.Fault) {
	m := field.FindStringSubmatch(f.Field)
	if m == nil {
		l.add("", f.Field, f.Rule)
		return
	}
	i, _ := strconv.Atoi(m[1])
	key := strings.Replace(m[2], "max_attempts", "attempts", 1)
	if _, inFile := l.doc.lines["channels."+c.Channels[i].Name]; !inFile {
		l.add("--webhook "+c.Channels[i].Name, key, f.Rule)
		return
	}
	l.add("", "channels."+c.Channels[i].Name+"."+key, f.Rule)
}

// Options are the options of the outbox. Faulty channels have been reported.
func (c *Config) Options() *consign.Options {
	o := &consign.Options{Program: c.Program, Workers: c.Workers, Grace: c.Grace, HandlerGrace: c.HandlerGrace}
	for i := range c.Channels {
		o.Channels = append(o.Channels, c.Channels[i].Channel)
	}
	return o
}

// HoldsPassword reports whether a database's URL has a password in it.
func HoldsPassword(db string) bool {
	if strings.HasPrefix(db, "sqlite:") {
		return false
	}
	if !strings.Contains(db, "://") { // keywords and values
		return strings.Contains(db, "password")
	}
	u, err := url.Parse(db)
	if err != nil {
		return true // it cannot be told
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}
