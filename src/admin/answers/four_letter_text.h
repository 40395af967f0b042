/*
 * The answers of the four-letter words, byte by byte as Apache ZooKeeper 3.9 prints them (server/command/ *.java), save
 * for the note at the end of a list that was cut.
 */
#ifndef ADMIN_ANSWERS_FOUR_LETTER_TEXT_H
#define ADMIN_ANSWERS_FOUR_LETTER_TEXT_H

#include "admin/answers/server_view.h"

#define TEXT_NOT_SERVING "This ZooKeeper instance is not currently serving requests"

void text_ruok(const struct view *v, struct buf *out);
void text_srvr(const struct view *v, struct buf *out);
void text_stat(const struct view *v, struct buf *out);
void text_cons(const struct view *v, struct buf *out);
void text_conf(const struct view *v, struct buf *out);
void text_envi(const struct view *v, struct buf *out);
void text_isro(const struct view *v, struct buf *out);
void text_dirs(const struct view *v, struct buf *out);
void text_wchs(const struct view *v, struct buf *out);
void text_wchc(const struct view *v, struct buf *out);
void text_wchp(const struct view *v, struct buf *out);
void text_dump(const struct view *v, struct buf *out);
void text_mntr(const struct view *v, struct buf *out);
void text_srst(const struct view *v, struct buf *out);
void text_crst(const struct view *v, struct buf *out);
void text_hash(const struct view *v, struct buf *out);
void text_gtmk(const struct view *v, struct buf *out);

/* A fraction as Java prints it: at least one decimal place, at most `digits`. */
void text_fraction(struct buf *out, double value, int digits);

#endif
