package consign

import (
	"crypto/tls"
	"errors"
	"net"
)

// Unreached returns [NotSent] of an error that says that no connection to the far
// side was made (the name was not found, the dial was refused or timed out, the
// certificate was not accepted), and any other error as it is, nil included. Use it
// on what a transport returned, inside an effect:
//
//	resp, err := client.Do(req)
//	if err != nil {
//		return consign.Unreached(err)
//	}
//
// It trusts that the error is about the first connection of this attempt. So it is
// for transports that make one connection and follow nothing: an http.Client with
// redirects refused and http.Transport.DisableKeepAlives set. One that follows a
// redirect, or sends again after a kept connection broke, can fail to dial with the
// request already in somebody's hands, and its errors must stay unknown.
func Unreached(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e := e.(type) {
		case *net.DNSError, *tls.CertificateVerificationError:
			return NotSent(err)
		case *net.OpError:
			switch e.Op {
			case "dial", "proxyconnect", "socks connect":
				return NotSent(err)
			}
		}
	}
	return err
}
