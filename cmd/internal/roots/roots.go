// Package roots gives a program the certificates of the public authorities where its system has none, as in an image
// FROM scratch: without them no hub behind such an authority, and no address of a check, could be dialled. Where the
// system has some, these are not used. They are Mozilla's, as of the module's version.
package roots

import _ "golang.org/x/crypto/x509roots/fallback" // it sets the pool, which only its import does
