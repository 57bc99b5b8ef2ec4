package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// receiver is where the posts of P13 go, as it tells of itself.
type receiver struct {
	Address     netip.AddrPort
	Certificate []byte // its own, in DER
}

// trust is what a client needs to know it by. Sessions are resumed on fresh
// connections, as they are by default where the endpoint makes its own.
func (r *receiver) trust() (*tls.Config, error) {
	cert, err := x509.ParseCertificate(r.Certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(0)}, nil
}

// receiveAlone takes posts in this process until it is to end, and tells then how
// many came whole.
func receiveAlone(ctx context.Context, _ *task, parent *parent) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now, local := time.Now(), net.IPv4(127, 0, 0, 1)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{local}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", local.String()+":0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
	})
	if err != nil {
		return err
	}
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var whole atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil && n == postSize {
			whole.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := parent.tell(receiver{address, cert}); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	return errors.Join(server.Close(), parent.tell(whole.Load()))
}

// received ends a receiver, which must have taken n posts.
func received(p *process, n int) error {
	if err := p.finish(); err != nil {
		return err
	}
	var whole int
	if err := p.hear(&whole); err != nil {
		return err
	}
	if whole != n {
		return fmt.Errorf("%d whole posts arrived, want %d", whole, n)
	}
	return nil
}
