#include "exp/snapshot/redact.h"

#include "catch.h"
#include "exp/base/error.h"

using xp::snapshot::Redactor;

TEST_CASE("known shapes of credentials are removed, each with its kind", "[report10]") {
  // Put together here, so that no scanner takes this file for a leak.
  std::string body = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5";
  struct Case {
    std::string text, kind;
  };
  std::vector<Case> cases = {
      {"ghp_" + body, "github-token"},
      {"github_pat_" + body, "github-token"},
      {"glpat-" + body.substr(0, 20), "gitlab-token"},
      {std::string("AKIA") + "IOSFODNN7EXAMPLE", "aws-access-key"},
      {"hf_" + body, "huggingface-token"},
      {"sk-" + body, "api-key"},
      {"xoxb-123456789012-" + body, "slack-token"},
      {"AIza" + body.substr(0, 35), "google-api-key"},
      {"npm_" + body, "npm-token"},
      {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6y",
       "json-web-token"},
      {"-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----", "private-key"},
  };
  for (const Case& c : cases) {
    Redactor r;
    std::string out = r.Text("before " + c.text + " after", "place");
    INFO(out);
    CHECK(out == "before [redacted:" + c.kind + "] after");
    REQUIRE(r.found().size() == 1);
    CHECK(r.found()[0].kind == c.kind);
    CHECK(r.found()[0].place == "place");
    CHECK(r.FoundJson().find(c.text) == std::string::npos);
  }
}

TEST_CASE("credentials in URLs go, the rest of the URL stays") {
  Redactor r;
  CHECK(r.Text("https://user:hunter2@host/a.git", "remote") ==
        "https://[redacted:url-credentials]@host/a.git");
  CHECK(r.Text("https://token@host/a.git", "remote") ==
        "https://[redacted:url-credentials]@host/a.git");
  CHECK(r.Text("ssh://git@host/a.git", "remote") == "ssh://git@host/a.git");
  CHECK(r.Text("git@host:a.git", "remote") == "git@host:a.git");
  CHECK(r.Text("https://host/@user", "remote") == "https://host/@user");
}

TEST_CASE("values of secret names go when they look secret; code stays as it is") {
  Redactor r;
  CHECK(r.Text("api_key = \"q8Zr4Lk2Wn6Xb0Vt\"", "f") == "api_key = \"[redacted:named-secret]\"");
  CHECK(r.Text("\"password\": \"q8Zr4Lk2Wn6Xb0Vt\",", "f") ==
        "\"password\": \"[redacted:named-secret]\",");
  CHECK(r.Text("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "f") ==
        "AWS_SECRET_ACCESS_KEY=[redacted:named-secret]");
  for (const char* code : {"token = tokenizer.next_token()", "num_tokens = 4096", "password: ''",
                           "auth = authenticate(user1234567)",
                           "for token in tokens2:", "max_token_length: 1234567890123",
                           "weights sha 0123456789abcdef0123456789abcdef", "import sk-learn"}) {
    CHECK(r.Text(code, "f") == code);
  }
}

TEST_CASE("the command line: values of secret options, whatever they look like") {
  Redactor r;
  std::vector<std::string> argv = {
      "exp",     "run",    "a.yaml",          "--set", "db.password=abcdef",
      "--token", "zyxwvu", "--api-key=123x56"};
  r.LearnArgv(argv);
  std::vector<std::string> out = r.Argv(argv);
  CHECK(out[4] == "db.password=[redacted:argument-secret]");
  CHECK(out[6] == "[redacted:argument-secret]");
  CHECK(out[7] == "--api-key=[redacted:argument-secret]");
  CHECK(out[2] == "a.yaml");
  // And anywhere else from now on.
  CHECK(r.Text("the file says zyxwvu", "f") == "the file says [redacted:argument-secret]");
}

TEST_CASE("own patterns, exceptions, any bytes") {
  Redactor r({.patterns = {"ACME-[0-9]+"}, .allow = {"AKIA0000000000000000"}});
  CHECK(r.Text("id ACME-1234 x", "f") == "id [redacted:pattern] x");
  CHECK(r.Text("AKIA0000000000000000", "f") == "AKIA0000000000000000");
  std::string binary("\x00\xff\xfe:\x80//@\x00", 9);
  CHECK(r.Text(binary, "f") == binary);
  CHECK_THROWS_AS(Redactor({.patterns = {"("}}), xp::Error);
  CHECK(Redactor({.enable = false}).Text("https://a:b@c/", "f") == "https://a:b@c/");
  CHECK(Redactor::SecretName("WANDB_API_KEY"));
  CHECK(Redactor::SecretName("wandbApiKey"));
  CHECK_FALSE(Redactor::SecretName("tokenizer"));
  CHECK_FALSE(Redactor::SecretName("keypoint"));
}
