// lower_copy.c: kernels that move: a copy from one storage to another, or one number everywhere.
#include "compiler/lower/kernel_builder.h"

static void one_store(Lower *l, Shape shape, ElementType type, const Storage *from, const Storage *to, double number,
                      WriteMode write) {
  Builder b;
  builder_start(&b, l);
  Shape order = shape;
  for (int i = 1; i < order.count; i++) {  // dims in the order of the target
    for (int j = i;
         j > 0 && to->stride[shape_find(&shape, order.axis[j])] > to->stride[shape_find(&shape, order.axis[j - 1])];
         j--) {
      AxisId swap = order.axis[j];
      order.axis[j] = order.axis[j - 1];
      order.axis[j - 1] = swap;
    }
  }
  for (int i = 0; i < order.count; i++) {
    shape_push(i + 1 < order.count ? &b.outer : &b.inner, order.axis[i]);
  }
  builder_space(&b);
  bool integer = !element_type_floating(type);
  int reg;
  if (from) {
    int port = builder_port(&b, PORT_INPUT, type);
    b.places[port] = place_of(l, from);
    builder_strides(&b, port, &shape, from->stride);
    KernelInstruction in = builder_blank(KERNEL_LOAD, integer, builder_level(&b, b.kernel.port[port].stride));
    in.port = (int16_t)port;
    reg = builder_code(&b, in);
  } else {
    KernelInstruction constant = builder_blank(integer ? KERNEL_INTEGER : KERNEL_CONST, integer, LEVEL_SCALAR);
    constant.number = number;
    constant.constant = number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;  // NaN too; plans have this
    reg = builder_code(&b, constant);
  }
  if (write == WRITE_ADD) {  // in every call, whatever is there
    int port = builder_port(&b, PORT_INPUT, type);
    b.places[port] = place_of(l, to);
    builder_strides(&b, port, &shape, to->stride);
    KernelInstruction before = builder_blank(KERNEL_LOAD, integer, builder_level(&b, b.kernel.port[port].stride));
    before.port = (int16_t)port;
    KernelInstruction sum =
        builder_blank(KERNEL_ADD, integer, (KernelLevel)((int)before.level | (int)builder_register_level(&b, reg)));
    sum.a = (int16_t)reg;
    sum.b = (int16_t)builder_code(&b, before);
    reg = builder_code(&b, sum);
  }
  int port = builder_port(&b, PORT_OUTPUT, type);
  b.places[port] = place_of(l, to);
  b.kernel.port[port].accumulate = write == WRITE_ADD_AFTER_FIRST;
  builder_strides(&b, port, &shape, to->stride);
  KernelInstruction out = builder_blank(KERNEL_STORE, integer, builder_level(&b, b.kernel.port[port].stride));
  out.a = (int16_t)reg;
  out.port = (int16_t)port;
  builder_code(&b, out);
  builder_finish(&b);
}

void lower_copy(Lower *l, Shape shape, ElementType type, const Storage *from, const Storage *to, WriteMode write) {
  one_store(l, shape, type, from, to, 0, write);
}

void lower_fill(Lower *l, Shape shape, ElementType type, const Storage *to, double number) {
  one_store(l, shape, type, NULL, to, number, WRITE_STORE);
}
