// explain_products.c: which products the precision has in 8 bits, which not, and why.
#include "compiler/report/explain_part.h"

void explain_products(const Explain *explain, Buffer *out) {
  if (explain->view->products.count == 0) {
    return;
  }
  Table table = table_make(explain->arena, "llrll");
  const char *const header[] = {"product of", "for", "products", "operands", "because"};
  for (int i = 0; i < 5; i++) {
    table_cell(&table, header[i]);
  }
  for (int i = 0; i < explain->view->products.count; i++) {
    const ViewProduct *product = &explain->view->products.at[i];
    table_cell(&table, product->weight);
    table_cell(&table, !product->backward ? "the forward" : product->of_weight ? "its gradient" : "the gradient of x");
    table_format(&table, "%d", product->count);
    table_format(&table, "%s x %s", element_type_name(product->type[0]), element_type_name(product->type[1]));
    table_cell(&table, product->why ? product->why : "");
  }
  buffer_text(out, "\nproducts that the precision selects, in the training step\n");
  table_print(&table, 1, out);
  int histories = 0;
  for (int s = 0; s < explain->set->count; s++) {
    const Plan *plan = explain->set->plans[s];
    for (int i = 0; i < plan->state_count; i++) {
      histories += plan_state_is_history(&plan->states[i]) && plan->states[i].owner;
    }
  }
  if (histories) {
    buffer_format(out, "scales by %d histories of largest numbers\n", histories);
  }
  buffer_text(
      out,
      "what has 8 bits is made anew for each microbatch, beside the value that it is rounded from; evaluation and "
      "generation multiply in the base\n");
}
