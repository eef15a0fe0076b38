package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// maxUntrusted bounds, in characters, what is logged of why a certificate is not
// trusted: it can repeat names in it, which a stranger has made up.
const maxUntrusted = 200

// handshakes notes client certificates that TLS refuses: no call comes of them,
// in which that could be seen.
type handshakes struct {
	credentials.TransportCredentials
	denials *denials
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		from := peer.NewContext(context.Background(), &peer.Peer{Addr: raw.RemoteAddr()})
		h.denials.credential(from, "TLS", &CredentialError{Err: errUntrusted, Why: fmt.Sprintf("the client certificate is not trusted: %.*s", maxUntrusted, untrusted.Err)})
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.denials}
}
