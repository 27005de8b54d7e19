import { mask, secretName, secretText } from "./masked-text.ts";
import type { Plan } from "./plan.ts";
import type { SlotSpec } from "./slot.ts";

/**
 * A slot's spec for callers below admin: a manifest may hold a key in plain text where an engine requires that. The
 * values of `env`, the arguments and `podTemplate` are masked; names, the program and the targets of `valueFrom` stay.
 */
export function maskedSpec(spec: SlotSpec): SlotSpec {
  const { command, podTemplate, args, env } = spec;
  return {
    ...spec,
    args: args.map(() => mask),
    env: Object.fromEntries(
      Object.entries(env).map(([name, value]) => [name, typeof value === "string" ? mask : value]),
    ),
    ...(command === undefined ? {} : { command: command.map((part, index) => (index === 0 ? part : mask)) }),
    ...(podTemplate === undefined ? {} : { podTemplate: { [mask]: mask } }),
  };
}

/** A plan for callers below admin: of a started command only the program. */
export function maskedPlan(plan: Plan): Plan {
  return {
    ...plan,
    steps: plan.steps.map((step) =>
      step.do === "start" ? { ...step, command: `${step.command.split(" ", 1)[0] ?? ""} ${mask}` } : step,
    ),
  };
}

const secretFlag = /^--?(?:[a-z0-9-]+-)?(?:api-key|token|hf-token|secret|password|passphrase|auth-key)(?:=|$)/i;

/** Paths of a spec whose value looks like a secret in plain text. A hint, not a proof. */
export function literalSecrets({ env, args, command }: Pick<SlotSpec, "env" | "args" | "command">): string[] {
  const variables = Object.entries(env)
    .filter(
      ([name, value]) =>
        typeof value === "string" && isLiteral(value) && (secretName.test(name) || secretText.test(value)),
    )
    .map(([name]) => `env.${name}`);
  return [...variables, ...secretArguments("args", args), ...secretArguments("command", command ?? [])];
}

function secretArguments(field: string, words: readonly string[]): string[] {
  return words.flatMap((word, index) => {
    const flag = secretFlag.exec(word);
    const value =
      flag === null ? word : word.includes("=") ? word.slice(word.indexOf("=") + 1) : (words[index + 1] ?? "");
    const isSecret = flag === null ? secretText.test(value) : isLiteral(value) && !value.startsWith("-");
    return isSecret ? [`${field}.${index}`] : [];
  });
}

/** `$(NAME)` alone is a reference: its target is checked where it is defined. */
function isLiteral(value: string): boolean {
  return value !== "" && !/^\$\([A-Za-z_]\w*\)$/.test(value);
}
