// Package apikey makes and reads API keys: credentials that carry their tenant
// and a secret, of which only the hash is stored.
//
// A key looks like ow_TENANT.ID.SECRET. The tenant is in it so that the look-up
// can name the tenant; it is believed only after the secret has matched. The
// package imports the standard library only.
package apikey
