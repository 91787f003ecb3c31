package app

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// authorities returns the authorities that may sign the certificates of Redis, MySQL and the mail server: the
// system's and those of TIERQ_CA_FILE; nil = only the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("TIERQ_CA_FILE: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the system has no pool
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("TIERQ_CA_FILE: no certificate in that file: it must be PEM")
	}
	return pool, nil
}
