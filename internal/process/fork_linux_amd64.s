#include "go_asm.h"
#include "textflag.h"

#define SYS_clone3 435
#define SYS_exit_group 231
#define ESRCH 3
#define mostErrors 4095

// func fork3(b *birth) (pid int)
//
// The child shares our memory, this stack too, until it is another program or
// dead: so it may touch nothing of it but the birth.
TEXT ·fork3(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), R12
	LEAQ birth_clone(R12), DI
	MOVQ $cloneArgs__size, SI
	MOVQ $SYS_clone3, AX
	SYSCALL
	TESTQ AX, AX
	JZ   child
	MOVQ AX, pid+8(FP)
	RET

child:
	LEAQ birth_calls(R12), R13

next:
	MOVQ call_number(R13), AX
	MOVQ (call_args+0)(R13), DI
	MOVQ (call_args+8)(R13), SI
	MOVQ (call_args+16)(R13), DX
	MOVQ (call_args+24)(R13), R10
	SYSCALL
	CMPQ AX, $-mostErrors
	JCC  failed
	MOVQ call_want(R13), BX
	ADDQ $call__size, R13
	TESTQ BX, BX
	JZ   next
	CMPQ AX, BX
	JEQ  next
	MOVQ $-ESRCH, AX

failed:
	NEGQ AX
	MOVQ AX, birth_failed(R12)

end:
	MOVQ $127, DI
	MOVQ $SYS_exit_group, AX
	SYSCALL
	JMP  end
