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

TEST_CASE("tokens of more issuers, and words that only begin like them") {
  const std::string drawn = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5jK7mN9pQ1",
                    hex = "0123456789abcdef";
  for (const std::string& token :
       {"gloas-" + drawn, "glft-" + drawn.substr(0, 20), "glsoat-" + drawn.substr(0, 20),
        "xoxc-1234567890-" + drawn, "xoxd-" + drawn, "GOCSPX-" + drawn.substr(0, 28),
        "dapi" + hex + hex, "ATATT3xFfGF0" + drawn + drawn,
        "glsa_" + drawn.substr(0, 32) + "_9b6f237a", "glc_" + drawn + "+" + drawn + "/9==",
        "dp.pt." + drawn, "pul-" + hex + hex + hex, "pplx-" + drawn, "KGAT_" + hex + hex,
        "sbp_" + hex + hex + hex, "rpa_" + drawn, "sk-proj-" + drawn + "-" + drawn,
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ." + drawn.substr(0, 27), "abc8Q~" + drawn.substr(0, 34)}) {
    INFO(token);
    std::string out = Redactor().Text("see " + token + " there", "f");
    CHECK(out.find("see [redacted:") == 0);
    CHECK(out.ends_with("] there"));
  }
  for (const char* words :
       {"hf_hub_download_with_retries_and_timeout_long_2",
        "sk-learn-contrib-imbalanced-forest-of-trees", "as-good-as-it-gets-in-version-22",
        "pa-rt-of-a-very-long-name-with-a-number-7-and-more-words"}) {
    CHECK(Redactor().Text(words, "f") == words);
  }
}

TEST_CASE("names: numbered, in one word, in capitals; what only ends like one") {
  struct Case {
    const char *text, *secret;
  };
  for (const Case& c : {Case{"export API_KEY_2=q8Zr4Lk2Wn6Xb0Vt\n", "q8Zr4Lk2Wn6Xb0Vt"},
                        {"PASSWORD1=abc123def\n", "abc123def"},
                        {"export DB_PASS=hunter2b\n", "hunter2b"},
                        {"MY_ODD_PASS=hunter2b\n", "hunter2b"},
                        {"smtp_pass = \"mailP4ss1x\"", "mailP4ss1x"},
                        {"SSHPASS=p4ssphr\n", "p4ssphr"},
                        {"AUTHTOKEN=q8Zr4Lk2Wn6Xb0Vt\n", "q8Zr4Lk2Wn6Xb0Vt"},
                        {"GH_PAT=q8Zr4Lk2Wn6Xb0Vt\n", "q8Zr4Lk2Wn6Xb0Vt"},
                        {"password: c3VwZXJzZWNyZXRwdzE=\n", "c3VwZXJzZWNyZXRwdzE="},
                        {"connect(\"host=h user=u password=l1bpqPw\")", "l1bpqPw"},
                        {"Server=h;Password=l1bpqPw;Port=3", "l1bpqPw"},
                        {"PASSWORD=abc123 ./train.sh", "abc123"},
                        {"client_secret:\n  q8Zr4Lk2Wn6Xb0Vt\n", "q8Zr4Lk2Wn6Xb0Vt"},
                        {"secret: >-\n  q8Zr4Lk2Wn6Xb0Vt\n", "q8Zr4Lk2Wn6Xb0Vt"},
                        {"<password>xmlP4ssw0rd</password>", "xmlP4ssw0rd"},
                        {"<p name=\"password\" value=\"xmlAttrP4\"/>", "xmlAttrP4"},
                        {"ENV API_TOKEN q8Zr4Lk2Wn6Xb0Vt\n", "q8Zr4Lk2Wn6Xb0Vt"},
                        {"tool --password hunter2b -v", "hunter2b"},
                        {"-H \"authorization: bearer q8Zr4Lk2Wn6Xb0Vt\"", "q8Zr4Lk2Wn6Xb0Vt"}}) {
    INFO(c.text);
    std::string out = Redactor().Text(c.text, "f");
    CHECK(out.find(c.secret) == std::string::npos);
    CHECK(out.find("[redacted:") != std::string::npos);
  }
  for (const char* stays :
       {"second_pass = \"RPN_R-50-C4_1x\"", "login = account = password = ''",
        "f(password=args.password)", "password: str = None", "tool --password-file passwords.txt",
        "password: the one you chose in step 2", "<token>", "max_tokens: 4096\n"}) {
    CHECK(Redactor().Text(stays, "f") == stays);
  }
}

TEST_CASE("formats and commands: what tells a secret is around it") {
  struct Case {
    std::string text, secret;
  };
  const std::string hex = "0123456789abcdef0123456789abcdef";
  for (const Case& c :
       {Case{"{\"username\": \"me\", \"key\": \"" + hex + "\"}", hex},
        Case{"wandb.login(key='" + hex + "')", hex},
        Case{"Private-Lines: 2\nAAAAfirst\nAAAAsecond\nPrivate-MAC: 00", "AAAAfirst\nAAAAsecond"},
        Case{"get(u, auth=(\"me\", \"r3questsPw\"))", "r3questsPw"},
        Case{"HTTPBasicAuth('me', 'r3questsPw')", "r3questsPw"},
        Case{"curl -s -u me:cUrlPw99 https://x", "cUrlPw99"},
        Case{"curl --user \"me:cUrlPw99\" https://x", "cUrlPw99"},
        Case{"mysql -u root -pmYsq1Pw9 db", "mYsq1Pw9"},
        Case{"sshpass -p sshP4ss9 ssh h", "sshP4ss9"},
        Case{"docker login -u me -p dckrP4ss9 ghcr.io", "dckrP4ss9"}}) {
    INFO(c.text);
    std::string out = Redactor().Text(c.text, "f");
    CHECK(out.find(c.secret) == std::string::npos);
    CHECK(out.find("[redacted:") != std::string::npos);
  }
  for (const char* stays : {"curl -u $USER:$PASSWORD https://x", "mkdir -p some/where",
                            "ssh -p 2222 host", "auth=(user, password)",
                            "{\"key\": \"0123456789abcdef0123456789abcdef\"}", "login(name)"}) {
    CHECK(Redactor().Text(stays, "f") == stays);
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

TEST_CASE("strong names: short values in quotes, environment and YAML files, netrc", "[report10]") {
  auto gone = [](const std::string& text) {
    Redactor r;
    std::string out = r.Text(text, "f");
    INFO(out);
    return out.find("hunter2") == std::string::npos && r.found().size() == 1;
  };
  for (const char* text :
       {"password = 'hunter2'", "\"db_password\": \"hunter2\"", "DB_PASSWORD=hunter2\n",
        "export PGPASSWORD=hunter2\n", "password: hunter2\n", "  apiKey: \"hunter2\"",
        "def f(password: str = \"hunter2\"):", "machine h login me password hunter2\n",
        "machine h\n  login me\n  password hunter2\n", "api_key => 'hunter2'",
        "{\\\"password\\\": \\\"hunter2\\\"}"}) {
    INFO(text);
    CHECK(gone(text));
  }
  Redactor r;
  for (const char* code :
       {"password = args.password\n", "if password == 'hunter2222':", "password = getpass()",
        "password: str\n", "PASSWORD=$OTHER\n", "password = \"${PASSWORD}\"", "api_key=None\n",
        "connect(password=password)\n", "pad_token = \"<pad>1234567890a\"",
        "\"password\": \"Passwort\"", "mask_token: 103\n", "secret = \"\"\n",
        "the password was changed on 2024-01-01", "login_required = 'password'"}) {
    CHECK(r.Text(code, "f") == code);
  }
}

TEST_CASE("texts that look random go; names, digests, paths and base64 blocks stay") {
  Redactor r;
  std::string random = "q8Zr4Lk2Wn6Xb0VtA9cE3fG7hJ5k";
  CHECK(r.Text("x('" + random + "')", "f") == "x('[redacted:random-text]')");
  CHECK(r.Text("and " + random + " bare", "f") == "and [redacted:random-text] bare");  // learned
  CHECK(Redactor().Text(random, "config note") == "[redacted:random-text]");
  CHECK(Redactor({.entropy = false}).Text(random, "config note") == random);
  CHECK(Redactor({.allow = {random}}).Text(random, "config note") == random);
  for (const std::string& text :
       {std::string("\"0123456789abcdef0123456789abcdef01234567\""),
        std::string("\"FasterRCNNResNet50FPNV2WeightsCOCO\""),
        std::string("'R-101-FPN-X4d-64x4d-GN-2x'"),
        std::string("'open-mmlab://detectron2/resnet50_caffe'"),
        std::string("\"sha512-q8Zr4Lk2Wn6Xb0VtA9cE3fG7hJ5kq8Zr4Lk2Wn6Xb0Vt==\""),
        "data " + random + " in the middle",
        "\"" + random + random + random + random + random + "\"",
        std::string("\"e3b0c442-98fc-1c14-9afb-f4c8996fb924\"")}) {
    CHECK(Redactor().Text(text, "f") == text);
  }
}

TEST_CASE("what is learned is found as JSON, YAML, URLs and patches write it") {
  Redactor r;
  r.Learn("p'a\"s\\s \u00e9w/rd", "config-secret");
  for (const char* text : {"p'a\"s\\s \u00e9w/rd", "p'a\\\"s\\\\s \u00e9w/rd",
                           "p''a\"s\\s \u00e9w/rd", "p%27a%22s%5Cs%20%C3%A9w%2Frd"}) {
    CHECK(r.Text(text, "f") == "[redacted:config-secret]");
  }
  std::string key =
      "-----BEGIN PRIVATE KEY-----\nMIIBVQIBADANBgkqhkiG\nAAAABBBBCCCCDDDD1234\n"
      "-----END PRIVATE KEY-----";
  CHECK(r.Text(key, "f") == "[redacted:private-key]");
  CHECK(r.Text("@@ -1 +1 @@\n+AAAABBBBCCCCDDDD1234\n", "patch") ==
        "@@ -1 +1 @@\n+[redacted:private-key]\n");
}

TEST_CASE("URLs: parameters, several @, ssh's names; own patterns across a long line") {
  Redactor r({.patterns = {"ACME-[0-9]{6}"}});
  CHECK(r.Text("https://u:p@ss@h/x", "f") == "https://[redacted:url-credentials]@h/x");
  CHECK(r.Text("ssh://deploy@h/x", "f") == "ssh://deploy@h/x");
  CHECK(r.Text("https://h/f?X-Amz-Signature=0a1b2c3d4e5f&z=1", "f") ==
        "https://h/f?X-Amz-Signature=[redacted:url-parameter]&z=1");
  for (size_t before : {0, 3070, 4090, 4096, 9000}) {
    std::string text = std::string(before, ' ') + "ACME-123456" + std::string(5000, ' ');
    std::string clean = r.Text(text, "f");
    CHECK(clean == std::string(before, ' ') + "[redacted:pattern]" + std::string(5000, ' '));
  }
  // The place may hold the secret, too.
  Redactor named;
  named.Text("https://u:abc123def456@h/", "file ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5");
  CHECK(named.FoundJson().find("aB3dE5g") == std::string::npos);
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

TEST_CASE("the command line: programs whose options take a password") {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"sshpass", "-p", "hunter22", "ssh", "host"},
        {"mysql", "-uroot", "-phunter22", "db"},
        {"docker", "login", "-u", "me", "-p", "hunter22"},
        {"curl", "--user=me:hunter22", "http://h/"}}) {
    Redactor r;
    std::vector<std::string> argv = {"exp", "run", "a.yaml", "--"};
    argv.insert(argv.end(), command.begin(), command.end());
    r.LearnArgv(argv);
    const std::vector<std::string> out = r.Argv(argv);
    REQUIRE(out.size() == argv.size());
    for (size_t i = 0; i < out.size(); ++i) {
      INFO(command[0] << ": " << out[i]);
      const size_t at = argv[i].find("hunter22");
      CHECK(out[i].find("hunter22") == std::string::npos);
      CHECK((at != std::string::npos || out[i] == argv[i]));
    }
  }
  // Options that are none of a password.
  Redactor r;
  const std::vector<std::string> plain = {"mysql", "-p", "3306", "curl", "-u", "train.py", "login"};
  r.LearnArgv(plain);
  CHECK(r.Argv(plain) == plain);
}

TEST_CASE("credentials behind a scheme's name, and behind the name of a setting") {
  const std::string secret = "Zq10wK9rT10vXp4";
  for (const char* scheme : {"Bearer", "Basic", "token", "Token", "ApiKey"}) {
    for (const std::string quote : {"", "'", "\""}) {
      Redactor r;
      const std::string head = "Authorization: " + quote + scheme + " ";
      INFO(head);
      CHECK(r.Text(head + secret + quote, "f").find(secret) == std::string::npos);
    }
  }
  CHECK(Redactor().Text("a token embedding128dim of words", "f") ==
        "a token embedding128dim of words");
  Redactor r;
  const std::vector<std::string> argv = {"aws", "configure", "set", "aws_secret_access_key",
                                         secret};
  r.LearnArgv(argv);
  CHECK(r.Argv(argv).back() == "[redacted:argument-secret]");
  const std::vector<std::string> plain = {"tune", "password", "dictionary"};
  r.LearnArgv(plain);
  CHECK(r.Argv(plain) == plain);
}

TEST_CASE("special tokens of a language model are parameters, whatever they stand under") {
  Redactor r;
  for (const std::string text : {"<start>", "[BLANK]", "<|im_start|>", "<extra_id_0>"}) {
    r.Learn(text, "config-secret");
    CHECK(r.Secret(text, "config-secret", "config sos_token") == text);
    CHECK(r.Argv({"--sos_token", text}) == std::vector<std::string>{"--sos_token", text});
    CHECK(r.Text("a = \"" + text + "\"", "f") == "a = \"" + text + "\"");
  }
  CHECK(r.found().empty());
  CHECK(r.Secret("<x9Kd03mfLq81>", "config-secret", "c") == "[redacted:config-secret]");
  CHECK(r.Secret("hunter", "config-secret", "c") == "[redacted:config-secret]");
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
