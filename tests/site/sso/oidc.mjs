// An OpenID Connect provider: npm's oidc-provider with its own pages for development.
// node oidc.mjs <port> <file of people: name -> claims> <address to return to>
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [port, people, redirect] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${process.env.NODE_MODULES}/oidc-provider/lib/index.js`));
const issuer = `http://localhost:${port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: "mhb", client_secret: "a-secret-of-mhb", redirect_uris: [redirect] }],
  claims: { openid: ["sub"], profile: ["name", "given_name", "family_name", "preferred_username", "groups"], email: ["email", "email_verified"] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, ...JSON.parse(readFileSync(people, "utf-8"))[id] }), // read anew: groups change
  }),
  pkce: { required: () => true },
  cookies: { keys: ["only-in-tests"] },
});
provider.on("server_error", (_context, error) => console.error(error));
provider.listen(Number(port), "127.0.0.1");
