/**
 * Text that stays as it is where the kubelet expands `$(NAME)` in `command`, `args` and the values of `env`: it reads
 * `$$` as `$`, whatever follows
 * (https://github.com/kubernetes/kubernetes/blob/master/third_party/forked/golang/expansion/expand.go).
 */
export function unexpanded(text: string): string {
  return text.replaceAll("$", () => "$$");
}
