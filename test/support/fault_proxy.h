/*
 * A TCP proxy on loopback that breaks connections on command: between a client and a ZooKeeper
 * server, whose traffic is frames with a 4-byte length before each. Runs as a thread of a C test;
 * fault_proxy_main.c is the same as a program.
 *
 * Commands, one line each ("up": client to server, "down": server to client; counts begin when the
 * command is given and cover all connections together; each fault happens once):
 *   pass                  forget all faults; held bytes are forwarded
 *   hold up|down|both     a black hole: forward nothing, keep the connections
 *   delay MS              forward everything with this delay
 *   cut                   close all connections now
 *   cut-at DIR BYTES      close the connection after this number of bytes
 *   cut-frame DIR N       close the connection after the Nth frame
 *   swallow DIR N         drop the Nth frame and close the connection
 *   refuse, accept        do not listen; listen again
 *   server PORT           where new connections go
 *   stats                 answers "connections=N open=N up=BYTES down=BYTES frames-up=N frames-down=N"
 * The answer is one line: "ok", the stats, or "error: ...".
 */
#ifndef SUPPORT_FAULT_PROXY_H
#define SUPPORT_FAULT_PROXY_H

#include <stddef.h>
#include <stdint.h>

struct fault_proxy;

/* Listens on 127.0.0.1:listen_port (0: a free one) and forwards to 127.0.0.1:server_port. NULL
 * with errno on failure. */
struct fault_proxy *fault_proxy_start(uint16_t listen_port, uint16_t server_port);
/* The same to a server elsewhere: address is its IPv4 address in digits. */
struct fault_proxy *fault_proxy_start_to(uint16_t listen_port, const char *address,
                                         uint16_t server_port);

uint16_t fault_proxy_port(const struct fault_proxy *p);

/* Gives a command (printf form) and waits until it is in effect; asserts that the answer is
 * "ok". */
void fault_proxy_do(struct fault_proxy *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Gives a command line and returns the answer in buf. */
void fault_proxy_command(struct fault_proxy *p, const char *line, char *buf, size_t len);

/* Closes everything and joins the thread. */
void fault_proxy_stop(struct fault_proxy *p);

#endif
