// Package smtpaction sends one mail per operation.
//
// Start with [New]. A [Message] is rendered to the same bytes at every attempt:
// Message-ID, boundary and Date come from the operation, nothing from the time,
// the attempt or chance. The date is the one that the operation's id (a UUID of
// version 7) was made at. The server's name is no part of what is frozen, since
// another relay for a mail that was proved not sent changes nothing.
//
// What is proved (RFC 5321): until the line with the single dot was handed to
// the connection, the server has no mail, whatever else happened. After it only
// the server's reply counts: 2yz is a mail that it has taken over, 4yz and 5yz
// are one that it has not. No reply, or one that cannot be read, proves nothing;
// SMTP has neither keys nor look-ups, so that a person decides. The Message-ID
// stays the same for every attempt, so that receivers that know it drop a
// second copy.
//
// A mail goes to all its recipients or to none: when the server refuses one,
// the transaction is given up before the mail is sent.
//
// The package must never know the ledger, keys or retry policy. It imports the
// standard library, actions and google/uuid. Which addresses may be reached is
// the dialer's to decide, which is passed in.
package smtpaction
