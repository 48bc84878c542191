/*
 * What is in each page of an input that a durable Spark training has stored (docs/pages.md):
 *
 *     cc -std=c99 -o pages examples/c/pages.c $(pkg-config --cflags --libs rejoin)
 *     ./pages native/pages/tests/golden training
 *
 * Prints the input's digest and the names of its features, and for each page its number, partition,
 * kind, rows and columns, and the sums of labels and of the features that aren't missing.
 */
#include <rejoin.h>
#include <stdio.h>

static int fail(const char *message) {
    fprintf(stderr, "%s\n", message);
    return 1;
}

static void print(const rejoin_page_view *view) {
    static const char *const kinds[] = {"", "dense", "CSR", "Spark's rows"};
    double labels = 0, features = 0;
    if (view->labels != NULL) {
        for (uint32_t row = 0; row < view->rows; row++) labels += (double)view->labels[row];
    }
    for (uint64_t at = 0; view->features != NULL && at < view->values; at++) {
        float value = view->features[at];
        if (value == value) features += (double)value; /* NaN is none */
    }
    printf("page %u of partition %u: %s, %u x %u, labels %g, features %g\n", (unsigned)view->number,
           (unsigned)view->partition, kinds[view->kind], (unsigned)view->rows, (unsigned)view->columns, labels,
           features);
}

int main(int count, char **arguments) {
    if (count != 3) return fail("usage: pages FOLDER training|evaluation");
    rejoin_input *input;
    if (rejoin_input_open(arguments[1], arguments[2], &input) != REJOIN_OK) return fail(rejoin_input_message(input));
    printf("input %s\n", rejoin_input_digest(input));
    const char *name;
    for (uint32_t column = 0; (name = rejoin_input_feature_name(input, column)) != NULL; column++) {
        const char *type = rejoin_input_feature_type(input, column);
        printf("feature %u: %s (%s)\n", (unsigned)column, name, type == NULL ? "no type" : type);
    }
    for (uint64_t number = 0; number < rejoin_input_pages(input); number++) {
        rejoin_page *page;
        rejoin_page_view view = REJOIN_PAGE_VIEW_INIT;
        if (rejoin_page_read(input, number, &page) != REJOIN_OK) return fail(rejoin_page_message(page));
        if (rejoin_page_get(page, &view) != REJOIN_OK) return fail(rejoin_page_message(page));
        print(&view);
        rejoin_page_free(page);
    }
    rejoin_input_close(input);
    return 0;
}
