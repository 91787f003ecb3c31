package database

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// secure refuses options of a DSN that would let an attacker on the network read or change the connection, and
// sets which certificates are trusted.
func secure(cfg *mysql.Config, roots *x509.CertPool) error {
	switch {
	case cfg.AllowFallbackToPlaintext || cfg.TLS != nil && cfg.TLS.InsecureSkipVerify: // tls=skip-verify, tls=preferred
		return errors.New("tls=skip-verify, tls=preferred and allowFallbackToPlaintext turn the check of the server off: " +
			"write tls=true, and name the authority that signed its certificate in TIERQ_CA_FILE")
	case cfg.AllowCleartextPasswords && cfg.TLS == nil && cfg.Net != "unix":
		return errors.New("allowCleartextPasswords sends the password for everybody to read: write tls=true, or leave it out")
	case cfg.AllowAllFiles:
		return errors.New("allowAllFiles lets the server read the files of this machine: leave it out")
	case cfg.TLS != nil: // its ServerName is the host of the DSN
		cfg.TLS.RootCAs, cfg.TLS.MinVersion = roots, tls.VersionTLS12
	}
	return nil
}

// untrusted says whether a connection failed because of the server's certificate, or because the server has no
// TLS.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	return errors.Is(err, mysql.ErrNoTLS) || errors.As(err, &certificate) || errors.As(err, &notTLS)
}
