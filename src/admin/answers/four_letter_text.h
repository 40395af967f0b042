/*
 * The answers to four-letter words, byte for byte as Apache ZooKeeper 3.9 prints them (server/command/ *.java), except
 * the note at the end of a list that was cut.
 */
#ifndef ADMIN_ANSWERS_FOUR_LETTER_TEXT_H
#define ADMIN_ANSWERS_FOUR_LETTER_TEXT_H

#include "admin/answers/server_view.h"

#define TEXT_NOT_SERVING "This ZooKeeper instance is not currently serving requests"
#define TEXT_REFUSED_ADVICE "sign in as the reason says: docs/security.md"

void four_letter_ruok(const struct view *v, struct buf *out);
void four_letter_srvr(const struct view *v, struct buf *out);
void four_letter_stat(const struct view *v, struct buf *out);
void four_letter_cons(const struct view *v, struct buf *out);
void four_letter_conf(const struct view *v, struct buf *out);
void four_letter_envi(const struct view *v, struct buf *out);
void four_letter_isro(const struct view *v, struct buf *out);
void four_letter_dirs(const struct view *v, struct buf *out);
void four_letter_wchs(const struct view *v, struct buf *out);
void four_letter_wchc(const struct view *v, struct buf *out);
void four_letter_wchp(const struct view *v, struct buf *out);
void four_letter_dump(const struct view *v, struct buf *out);
void four_letter_mntr(const struct view *v, struct buf *out);
void four_letter_srst(const struct view *v, struct buf *out);
void four_letter_crst(const struct view *v, struct buf *out);
void four_letter_hash(const struct view *v, struct buf *out);
void four_letter_gtmk(const struct view *v, struct buf *out);

#endif
