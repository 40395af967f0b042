/*
 * Requests that a web page makes with an operator's browser, without the operator's knowledge. A page of another site can
 * send requests to this port (Sec-Fetch-Site, Origin), and read the answers once its own name leads to this
 * port's address (DNS rebinding: Host). So Host must be a numeric address, localhost, the name that the port listens
 * on, or a name in admin.allowedHosts.
 */
#ifndef ADMIN_HTTP_CROSS_SITE_H
#define ADMIN_HTTP_CROSS_SITE_H

#include "admin/http/http_exchange.h"
#include "daemon/admin_options.h"

/* Why a request looks forged, fixed text; NULL: it does not. */
const char *forgery_reason(const struct admin_options *options, const struct http_request *request);

#endif
