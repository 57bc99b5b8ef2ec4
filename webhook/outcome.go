package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Error is why a POST is not a known success. Its text is made of fixed words, a
// status and an error number: no address, URL, header or body is ever in it, nor is
// anything that the receiver said.
type Error struct {
	Verdict  Verdict
	Stage    string // where it ended: "policy", "credentials", "resolve", "dial", "proxy", "tls", "write", "answer"
	Status   int    // of the answer; 0: there was none
	Note     string // what else the answer says
	Override bool   // Options.Overrides decided
	Cause    error  // context.Canceled, a time-out, a syscall.Errno, …; nil for an answer
}

// Error returns "stage: cause", or "answer 500", with its note.
func (e *Error) Error() string {
	s := e.Stage
	if e.Status != 0 {
		s += " " + strconv.Itoa(e.Status)
	}
	if e.Override {
		s += " (" + e.Verdict.String() + " by the endpoint's own rule)"
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	if e.Note != "" {
		s += ": " + e.Note
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// outcome is the error that the engine understands, nil for a known success.
func (e *Error) outcome(wait time.Duration) error {
	d := &dispatch.Definite{HTTP: e.Status, Wait: wait, Err: e}
	switch e.Verdict {
	case Accepted:
		return nil
	case NotSent:
		d.Event = lifecycle.EvNotSent
	case Refused:
		d.Event = lifecycle.EvRefused
	case Rejected:
		d.Event = lifecycle.EvRejected
	default:
		d.Event = lifecycle.EvUnknown
	}
	return d
}

// Causes without an error number.
var (
	errCut      = errors.New("the connection ended")
	errTimeout  = errors.New("timed out")
	errNoHost   = errors.New("the name does not resolve")
	errResolver = errors.New("the name could not be resolved")
	errTrust    = errors.New("the certificate is not trusted")
	errName     = errors.New("the certificate is for another name")
	errExpired  = errors.New("the certificate has expired or is not valid yet")
	errAlert    = errors.New("the peer refused the handshake")
	errNotTLS   = errors.New("the peer does not speak TLS")
	errNotHTTP  = errors.New("what came is not an HTTP/1 answer")
	errOther    = errors.New("the transport gave up")
)

// plain turns an error of the network into one that can be shown: those of the
// standard library name addresses, hosts and what the peer sent.
func plain(err error) error {
	var (
		errno   syscall.Errno
		dns     *net.DNSError
		op      *net.OpError
		record  tls.RecordHeaderError
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		timeout interface{ Timeout() bool }
	)
	switch {
	case errors.Is(err, errBlocked):
		return errBlocked
	case err == errHeaderLimit, err == errProxy, err == errNotHTTP:
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &dns) && dns.IsNotFound:
		return errNoHost
	case errors.As(err, &dns):
		return errResolver
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errTimeout
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &name):
		return errName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errExpired
	case errors.As(err, &verify), errors.As(err, &unknown):
		return errTrust
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls: the peer's alert
		return errAlert
	case errors.As(err, &record):
		return errNotTLS
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return errCut
	}
	return errOther
}
