/*
 * A client whose link is looked at from outside, for follow_test.py and tls_test.py. It follows the ensemble unless it has
 * TLS, writes its log lines ("log LEVEL ..."), and answers the lines of its input:
 *
 *   read           "read ERROR SERVER": the error of a read, and the server of the link
 *   ids            "ids SCHEME:ID ...": who the server takes it for
 *   servers LIST   "servers ERROR": the result of conclave_client_set_servers
 *
 * usage: link_client SERVERS [CA CERT KEY]
 */
#include <conclave/easy.h>

#include <stdio.h>
#include <string.h>

static void on_log(struct conclave_client *client, const struct conclave_log_line *line, void *ctx)
{
    printf("log %s %s\n", conclave_log_level_name(line->level), line->text);
}

static void answer_read(struct conclave_client *client)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    int error = conclave_exists(client, "/", NULL);
    conclave_client_session(client, &session);
    printf("read %s %s\n", conclave_errname(error), session.server);
}

static void answer_ids(struct conclave_client *client)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_WHO_AM_I, NULL, 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    printf("ids");
    for (size_t i = 0; error == 0 && i < reply->identities_count; i++) {
        printf(" %s:%s", reply->identities[i].scheme, reply->identities[i].id);
    }
    printf("\n");
    conclave_reply_free(reply);
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_tls_options tls = CONCLAVE_TLS_OPTIONS_INIT;
    struct conclave_retry_options retry = CONCLAVE_RETRY_OPTIONS_INIT;
    struct conclave_client *client;
    char error[300] = "";
    char line[512];
    if (argc != 2 && argc != 5) {
        return 64;
    }
    if (argc == 5) {
        tls.ca_file = argv[2];
        tls.cert_file = argv[3];
        tls.key_file = argv[4];
        options.tls = &tls;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    options.servers = argv[1];
    options.on_log = on_log;
    options.retry = &retry;
    options.error = error;
    options.error_len = sizeof error;
    options.follow_ensemble = argc == 2;
    if (conclave_client_open(&options, &client) != 0 || conclave_client_start(client) != 0) {
        fprintf(stderr, "link_client: %s\n", error);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "read") == 0) {
            answer_read(client);
        } else if (strcmp(line, "ids") == 0) {
            answer_ids(client);
        } else if (strncmp(line, "servers ", strlen("servers ")) == 0) {
            int rc = conclave_client_set_servers(client, line + strlen("servers "));
            printf("servers %s\n", conclave_errname(rc));
        }
    }
    conclave_client_close(client, 2000);
    return 0;
}
