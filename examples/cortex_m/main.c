/* Predictions of a model on a board without an operating system. */
#define MODEL_SELF_TEST
#include "model.h"
#include "rows.h"

void print(const char *text); /* startup.c */

static const char *const labels[MODEL_N_CLASSES] = MODEL_LABELS;

int main(void)
{
    char line[] = "row   : class ";
    int wrong = model_self_test();
    int r;
    print((wrong == 0) ? "self-test: passed\n" : "self-test: FAILED\n");
    for (r = 0; r < N_ROWS; r++) {
        const int number = model_predict(rows[r]);
        line[4] = (char)('0' + ((r / 10) % 10));
        line[5] = (char)('0' + (r % 10));
        print(line);
        print(labels[number]);
        if (number != expected[r]) {
            print(", NOT as on the desk");
            wrong++;
        }
        print("\n");
    }
    print((wrong == 0) ? "all as on the desk\n" : "some differ\n");
    return wrong;
}
