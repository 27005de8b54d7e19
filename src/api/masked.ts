import type { Plan } from "./plan.ts";
import type { SlotSpec } from "./slot.ts";

/** In place of what only an administrator may see. */
const mask = "***";

/**
 * A slot's spec for callers below admin: a manifest may hold a key in plain text where an engine takes one only so. What
 * stands in `env`, in arguments and in `podTemplate` is masked; names, the program and where a `valueFrom` points stay.
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

/** A plan for callers below admin: of what is started the program alone. */
export function maskedPlan(plan: Plan): Plan {
  return {
    ...plan,
    steps: plan.steps.map((step) =>
      step.do === "start" ? { ...step, command: `${step.command.split(" ", 1)[0] ?? ""} ${mask}` } : step,
    ),
  };
}

/** Such as HF_TOKEN, OPENAI_API_KEY, DB_PASSWORD; not TOKENIZERS_PARALLELISM, MAX_TOKENS or KEYBOARD. */
const secretName =
  /(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:API|ACCESS|PRIVATE|AUTH|SECRET)_?KEY)(?:_|$)/i;
const secretFlag = /^--?(?:[a-z0-9-]+-)?(?:api-key|token|hf-token|secret|password|passphrase|auth-key)(?:=|$)/i;
/** As providers of keys begin them. */
const secretText = /^(?:sk-|hf_|ghp_|github_pat_|glpat-|xox[abp]-|AKIA|svc_[a-z0-9]{8}\.)[\w.-]{8,}/;

/** Where a spec holds what looks like a secret in plain text. For a hint: it knows no secret for sure. */
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

/** `$(NAME)` alone is a reference: what it stands for is looked at where it is given. */
function isLiteral(value: string): boolean {
  return value !== "" && !/^\$\([A-Za-z_]\w*\)$/.test(value);
}
