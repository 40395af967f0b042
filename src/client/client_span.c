/* The program's spans: posted like any other callback. */
#include "client/handle.h"

#include <assert.h>
#include <stdlib.h>

enum { SPANS_WAITING_MAX = 1000 };

static void run_span_job(struct job *job)
{
    struct request_span *s = CONTAINER_OF(job, struct request_span, job);
    struct conclave_client *client = s->client;
    pthread_mutex_lock(&client->lock);
    assert(client->spans_waiting > 0);
    client->spans_waiting--;
    pthread_mutex_unlock(&client->lock);
    client->on_span(client, &s->span, client->span_ctx);
    free(s);
}

void client_span_post(struct conclave_client *client, struct client_request *r)
{
    struct request_span *s = r->span;
    assert(client->on_span != NULL && !client->closed);
    if (client->spans_waiting == SPANS_WAITING_MAX) {
        client->spans_dropped++;
        return; /* freed with the request */
    }
    r->span = NULL;
    request_span_end(s, r->opcode, r->reply.error, client_now_ns(client));
    s->client = client;
    s->span.dropped = client->spans_dropped;
    client->spans_dropped = 0;
    client->spans_waiting++;
    dispatcher_post(&client->dispatcher, &s->job, run_span_job);
}
