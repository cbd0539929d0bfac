// embedded.h: the texts of kernels/cuda/text/, compiled into the library, each NUL-terminated.
//
// A generator writes the target and the elements or the intrinsics, then the constants of one instruction, then the
// texts that use them.
#ifndef MDL_KERNELS_CUDA_EMBEDDED_H
#define MDL_KERNELS_CUDA_EMBEDDED_H

extern const char cuda_text_target[];              // what needs more than CUDA C, and the names of widths
extern const char cuda_text_elements[];            // words of memory and the elements in them
extern const char cuda_text_intrinsics[];          // matrices of tensor cores, and shared memory
extern const char cuda_text_formats[];             // loads and stores of any storage format
extern const char cuda_text_halves[];              // elements of 16 bits, and their products
extern const char cuda_text_take[];                // TAKE, and PUT where no two coordinates meet
extern const char cuda_text_sort[];                // a stable sort
extern const char cuda_text_put[];                 // PUT by sorting
extern const char cuda_text_order[];               // ORDER
extern const char cuda_text_grouped[];             // which rows chose which matrix, and products with it
extern const char cuda_text_grouped_hopper[];      // by products of warpgroups
extern const char cuda_text_grouped_half[];        // on tensor cores
extern const char cuda_text_grouped_plain[];       // by FMA
extern const char cuda_text_window[];              // WINDOW and FOLD
extern const char cuda_text_squares[];             // SQUARES
extern const char cuda_text_attention_place[];     // which queries and keys a thread block of attention has
extern const char cuda_text_attention_score[];     // scores of the model's text on the tiles of attention
extern const char cuda_text_attention_blocks[];    // which tiles of keys need no look
extern const char cuda_text_attention_tile[];      // tiles of 16-bit attention in shared memory and their products
extern const char cuda_text_attention_softmax[];   // its softmax over tiles of keys
extern const char cuda_text_attention_delta[];     // rowsum(do o) of a query, for gradients of 16-bit elements
extern const char cuda_text_attention_walk[];      // the tiles of queries that see a block of keys, for the same
extern const char cuda_text_attention_half[];      // attention on tensor cores, forward
extern const char cuda_text_attention_again[];     // what all gradients of it begin with
extern const char cuda_text_attention_captured[];  // of what scores capture
extern const char cuda_text_attention_pairs[];     // where that lies
extern const char cuda_text_attention_grad[];      // and backward
extern const char cuda_text_hopper[];              // what sm_90a has beyond intrinsics
extern const char cuda_text_warpgroups[];          // what kernels of its warpgroups share
extern const char cuda_text_attention_hopper[];    // attention by products of warpgroups
extern const char cuda_text_attention_hopper_forward[];  // forward
extern const char cuda_text_attention_hopper_grad[];     // and backward
extern const char cuda_text_attention_hopper_keys[];     // whose consumers have keys of their own
extern const char cuda_text_attention_hopper_columns[];  // or columns, where heads are deep
extern const char cuda_text_attention_plain[];           // attention by FMA, forward and backward

#endif
