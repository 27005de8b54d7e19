/** Stands for what only an administrator may see. */
export const mask = "***";

/** Matches names such as HF_TOKEN, OPENAI_API_KEY, DB_PASSWORD; not TOKENIZERS_PARALLELISM, MAX_TOKENS or KEYBOARD. */
export const secretName =
  /(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:API|ACCESS|PRIVATE|AUTH|SECRET)_?KEY)(?:_|$)/i;

/** Prefixes that providers give their keys, and what follows them. */
const prefixed =
  "(?:(?:sk-|sk_live_|hf_|gh[opsur]_|github_pat_|glpat-|gsk_|xox[abp]-|xai-|nvapi-|pplx-|npm_|pypi-|AKIA|svc_[a-z0-9]{8}\\.)[\\w.-]{8,}" +
  "|AIza[\\w-]{30,}|ASIA[0-9A-Z]{16})";
export const secretText = new RegExp(`^${prefixed}`);

/** The end of an escaped character of JSON or of an address is not part of the word after it. */
const afterEscape = String.raw`(?<=\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})`;
/** No part of these is read more than a few times: a text may be as long as a body, and written to take long. */
const secretWithin = new RegExp(`(?:\\b|${afterEscape})${prefixed}`, "g");
const webToken = new RegExp(String.raw`(?:(?<![\w-])|${afterEscape})eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*`, "g");
const bearer = new RegExp(String.raw`(?:\b|${afterEscape})(Bearer|Basic)(?:\s|%20)+[\w+/=.~-]{8,}`, "gi");
/** The password in an address. */
const userinfo = /(:\/\/[^\s/:@"'\\]{0,128}:)[^\s/@"'\\]{1,256}(?=@)/g;
/** Without its end it is as long as the text. */
const privateKey =
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g;

/** A text of JSON or of any kind, in which what looks like a secret is masked. A help, not a proof. */
export function maskedText(text: string): string {
  return maskedFields(text.replaceAll(privateKey, mask))
    .replaceAll(bearer, `$1 ${mask}`)
    .replaceAll(userinfo, `$1${mask}`)
    .replaceAll(webToken, mask)
    .replaceAll(secretWithin, mask);
}

/** The query of a web address may be what signs it, as those of object stores are. */
const query = /(\bhttps?:\/\/[^\s?#"'`<>]{1,2048})\?[^\s"'`<>]*/gi;
const login = /(\bhttps?:\/\/)[^\s/?#@"'`<>]{1,512}@/gi;

/** A text for people about where files come from: an address keeps neither its query nor its user. */
export function withoutSignatures(text: string): string {
  return text.replaceAll(query, `$1?${mask}`).replaceAll(login, "$1");
}

/** In every name of a secret: most of a text has none of these. */
const hint = /token|secret|passw|passphrase|credential|key|authorization|cookie/gi;
/** No name is longer on either side. */
const nameChars = 128;
const restOfName = /[\w-]{0,128}/y;
/** After a name in quotes; JSON within JSON, as the arguments of a tool are, has a backslash before each quote, or several. */
const quotedAfter = /\\{0,31}["']\s{0,64}:\s{0,64}(?=\\{0,31}["'])/y;
const bareAfter = /[ \t]{0,8}(?::=|=>|==|[:=])[ \t]{0,8}/y;
const openQuote = /\\{0,31}"/y;
const inSingleQuotes = /'[^'"\n\\]{0,1024}(?=')/y;
/** Two backslashes are one of the value, in JSON. */
const bareValue = /(?![{[])[^\s"\\]+(?:\\\\[^\s"\\]+)*/y;

function maskedFields(text: string): string {
  const isJson = /^\s*[{[]/.test(text);
  let masked = "";
  let from = 0;
  hint.lastIndex = 0;
  for (let hit = hint.exec(text); hit !== null; hit = hint.exec(text)) {
    const start = nameStart(text, hit.index, from);
    const end = endOf(restOfName, text, hint.lastIndex) ?? hint.lastIndex;
    const name = text.slice(start, end);
    // The letter of an escaped line end or tab is not part of the name after it.
    const names = text[start - 1] === "\\" ? [name, name.slice(1)] : [name];
    const value = names.some(isSecretField) ? valueAfter(text, end, { names, isJson }) : undefined;
    hint.lastIndex = value?.to ?? end;
    if (value === undefined) continue;
    masked += text.slice(from, value.from) + mask;
    from = value.to;
  }
  return masked + text.slice(from);
}

function nameStart(text: string, at: number, from: number): number {
  const least = Math.max(from, at - nameChars);
  let start = at;
  while (start > least && /[\w-]/.test(text.charAt(start - 1))) start -= 1;
  return start;
}

/** Whether a field of JSON holds a secret, by its name. */
function isSecretField(name: string): boolean {
  return isSecret(name) || /(?:api[_-]?key|access[_-]?key|token|secret|password|authorization|cookie)$/i.test(name);
}

/** Whether a line such as `DB_PASSWORD=…` or `accessToken: …` holds a secret, by its name. */
function isSecret(name: string): boolean {
  return secretName.test(name.replaceAll("-", "_")) || /[a-z](?:Token|Secret|Password|(?:Api|Access)Key)$/.test(name);
}

/** Where the value of that name is; undefined: what follows is no value. */
function valueAfter(
  text: string,
  end: number,
  { names, isJson }: { readonly names: readonly string[]; readonly isJson: boolean },
): { readonly from: number; readonly to: number } | undefined {
  const inField = endOf(quotedAfter, text, end);
  const from = inField ?? (names.some(isSecret) ? endOf(bareAfter, text, end) : undefined);
  if (from === undefined) return undefined;
  // Here the string ends that the name stands in.
  if (isJson && inField === undefined && text[from] === '"') return undefined;
  const opened = endOf(openQuote, text, from);
  if (opened !== undefined) return { from: opened, to: closingQuote(text, opened, opened - from - 1) };
  const single = endOf(inSingleQuotes, text, from);
  if (single !== undefined) return { from: from + 1, to: single };
  const to = endOf(bareValue, text, from);
  return to === undefined ? undefined : { from, to };
}

/** The end of a sticky pattern's match; undefined: it does not match there. */
function endOf(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

/**
 * Where a string ends whose quote has `depth` backslashes: its own quotes have more, and so has the end of a string that ends
 * with a backslash. A quote with fewer ends the string around it.
 */
function closingQuote(text: string, from: number, depth: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let run = 0;
    while (at - run > from && text[at - run - 1] === "\\") run += 1;
    if (run < depth || run % (2 * (depth + 1)) === depth) return at - Math.min(run, depth);
  }
  return text.length;
}
